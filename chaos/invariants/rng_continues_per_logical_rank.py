"""The random stream of a logical rank goes on where it stood, whichever process hosts the rank."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.state_equals_twin import short
from chaos.records import Commit

Twin = Mapping[tuple[int, int], Commit]


@invariant(needs=["step.commit"], needs_twin=True, sources=["I-RNG"])
def rng_continues_per_logical_rank(history: History, reference: History | None, scene: Scene) -> Finding:
    """The RNG digest of each (rank, step) that a rank computed itself is the twin's.

    An adopted step drew no numbers in this process and is left out. A script that was not written for our
    runtime may leave a generator unseeded (Python's own, say): what differs from the twin before the first
    fault fired says nothing about a recovery, and is left out for such targets; the finding says so.

    Smallest break: a successor whose first own step has another RNG digest than the twin's.
    """
    assert reference is not None
    right = {(commit.rank, commit.step): commit for commit in reference.commits() if commit.rng}
    own = [commit for commit in history.commits() if not commit.adopted]
    judged = [commit for commit in own if commit.rng]
    if not right and not judged and not scene.shows_runtime_events:
        return not_applicable(f"this {scene.kind} target shows no RNG digest")
    if not right or not judged:
        return too_thin("the twin has no RNG digest" if judged else "no commit carries an RNG digest")
    unseeded = set() if scene.shows_runtime_events else _unseeded(history, judged, right)
    if unseeded and all(set(_streams(commit)) <= unseeded for commit in judged):
        return not_applicable("the script's random streams differ from the twin's before any fault")
    offences = Offences()
    unknown = 0
    for commit in judged:
        expected = right.get((commit.rank, commit.step))
        unknown += expected is None
        for name in _differing(commit, expected, unseeded) if expected is not None else ():
            mine, theirs = _streams(commit).get(name), _streams(expected).get(name) if expected else None
            offences.add(f"{commit.where}: {name} {short(mine)}, twin {short(theirs)}")
    if offences:
        return offences.finding()
    if unknown or len(judged) < len(own):
        return too_thin(f"{unknown + len(own) - len(judged)} of {len(own)} commits can't be compared")
    beside = f", not seeded by the script: {', '.join(sorted(unseeded))}" if unseeded else ""
    return held(f"{len(judged)} commits continue the twin's streams{beside}")


def _streams(commit: Commit) -> dict[str, str]:
    """Digest by generator; all of them as one, ``RNG``, where they are not told apart."""
    return dict(commit.rng_parts) or ({"RNG": commit.rng} if commit.rng else {})


def _differing(commit: Commit, expected: Commit, unseeded: set[str]) -> list[str]:
    mine, theirs = _streams(commit), _streams(expected)
    return [
        name
        for name in sorted(set(mine) | set(theirs))
        if mine.get(name) != theirs.get(name) and name not in unseeded
    ]


def _unseeded(history: History, judged: list[Commit], right: Twin) -> set[str]:
    """The generators that differ from the twin's in a commit before the first fault fired."""
    fired = [fault.fired_t for fault in history.faults.values() if fault.fired_t is not None]
    first_t = min(fired, default=float("inf"))
    return {
        name
        for commit in judged
        if commit.t < first_t and (expected := right.get((commit.rank, commit.step))) is not None
        for name in _differing(commit, expected, set())
    }
