"""Recovered state is the fault-free run's state, bit by bit, at every committed step."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Commit


@invariant(needs=["step.commit"], needs_twin=True, sources=["I-BITWISE", "I-ATOMIC", "I-COVER"])
def state_equals_twin(history: History, reference: History | None, scene: Scene) -> Finding:
    """Every committed step has the digest that the same rank and step have in the twin.

    Parts (model, buffers, optimizer, scheduler, scaler) are compared one by one, so that the message
    names what differs. Commits without a digest are not judged, but every committed step needs one.

    Smallest break: one commit whose digest differs from the twin's.
    """
    assert reference is not None
    twin = {(commit.rank, commit.step): commit for commit in reference.commits() if commit.digest}
    judged = [commit for commit in history.commits() if commit.digest]
    if not twin or not judged:
        return _no_digests(scene, bool(twin), bool(judged))
    offences = Offences()
    unknown = set()
    for commit in judged:
        right = twin.get((commit.rank, commit.step))
        if right is None:
            unknown.add((commit.step, commit.rank))
        elif commit.digest != right.digest:
            parts = _differing_parts(commit, right)
            offences.add(f"{commit.where}: {_describe(commit, right, parts)}", weight=len(parts))
    if offences:
        return offences.finding()
    if unknown:
        step, rank = min(unknown)
        return too_thin(f"the twin has no digest for {len(unknown)} commits, first step {step} rank {rank}")
    bare = sorted(set(history.commits_by_step) - {commit.step for commit in judged})
    if bare:
        return too_thin(f"{len(bare)} committed steps carry no digest, first step {bare[0]}")
    return held(f"{len(judged)} commits of {len(history.commits_by_step)} steps equal the twin")


def _no_digests(scene: Scene, twin: bool, judged: bool) -> Finding:
    if not twin and not judged and not scene.shows_runtime_events:
        return not_applicable(f"this {scene.kind} target shows no state digest")
    return too_thin("no commit carries a digest" if not judged else "the twin carries no digest")


def _differing_parts(commit: Commit, right: Commit) -> list[str]:
    names = sorted(set(commit.parts) | set(right.parts))
    return [name for name in names if commit.parts.get(name) != right.parts.get(name)]


def _describe(commit: Commit, right: Commit, parts: list[str]) -> str:
    if not parts:
        return f"state {short(commit.digest)} differs from the twin's {short(right.digest)}"
    shown = ", ".join(
        f"{name} {short(commit.parts.get(name))} (twin {short(right.parts.get(name))})" for name in parts
    )
    return f"differs from the twin in {shown}"


def short(digest: str | None) -> str:
    """The first eight characters of a digest, for messages."""
    return "none" if digest is None else digest[:8]
