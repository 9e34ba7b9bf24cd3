"""The random stream of a logical rank goes on where it stood, whichever process hosts the rank."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.state_equals_twin import short


@invariant(needs=["step.commit"], needs_twin=True, sources=["I-RNG"])
def rng_continues_per_logical_rank(history: History, reference: History | None, scene: Scene) -> Finding:
    """The RNG digest of each (rank, step) that a rank computed itself is the twin's.

    An adopted step drew no numbers in this process and is left out.

    Smallest break: a successor whose first own step has another RNG digest than the twin's.
    """
    assert reference is not None
    right = {(commit.rank, commit.step): commit.rng for commit in reference.commits() if commit.rng}
    own = [commit for commit in history.commits() if not commit.adopted]
    judged = [commit for commit in own if commit.rng]
    if not right and not judged and not scene.shows_runtime_events:
        return not_applicable(f"this {scene.kind} target shows no RNG digest")
    if not right or not judged:
        return too_thin("the twin has no RNG digest" if judged else "no commit carries an RNG digest")
    offences = Offences()
    unknown = 0
    for commit in judged:
        expected = right.get((commit.rank, commit.step))
        unknown += expected is None
        if expected is not None and commit.rng != expected:
            offences.add(f"{commit.where}: RNG {short(commit.rng)}, twin {short(expected)}")
    if offences:
        return offences.finding()
    if unknown or len(judged) < len(own):
        return too_thin(f"{unknown + len(own) - len(judged)} of {len(own)} commits can't be compared")
    return held(f"{len(judged)} commits continue the twin's streams")
