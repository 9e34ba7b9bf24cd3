"""All replicas hold the same state after each committed step."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.state_equals_twin import short
from chaos.records import Commit


@invariant(needs=["step.commit"], sources=["I-REPLICA", "I-SEQ"])
def replicas_agree(history: History, reference: History | None, scene: Scene) -> Finding:
    """Per step, the digests of all ranks are equal.

    A script that was not written for our runtime may keep a part per rank by design (DDP leaves
    BatchNorm's running statistics so). For such targets a part on which the twin's own ranks differ
    is left out, and the finding says so; for our runtime every part counts.

    Smallest break: two ranks commit one step with different digests.
    """
    judged = [commit for commit in history.commits() if commit.digest]
    if not judged:
        detail = "no commit carries a digest"
        return too_thin(detail) if scene.shows_runtime_events else not_applicable(detail)
    local = set() if scene.shows_runtime_events else _rank_local_parts(reference, judged)
    offences = Offences()
    compared = 0
    for step, commits in history.commits_by_step.items():
        first: Commit | None = None
        for commit in commits:
            if not commit.digest:
                continue
            first = first or commit
            compared += commit.rank != first.rank
            parts = _differing(first, commit, local)
            if parts:
                offences.add(
                    f"step {step}: rank {commit.rank} {short(commit.digest)} differs from rank "
                    f"{first.rank} {short(first.digest)} in {', '.join(parts)}",
                    weight=len(parts),
                )
    if offences:
        return offences.finding()
    if not compared and (scene.world or 2) > 1:
        return too_thin("no step was committed with a digest by two ranks")
    beside = f", rank-local by design: {', '.join(sorted(local))}" if local else ""
    return held(f"{compared} comparisons over {len(history.commits_by_step)} steps{beside}")


def _differing(one: Commit, other: Commit, local: set[str]) -> list[str]:
    """Names of the parts that differ; ``state`` if only the whole digest can tell."""
    if one.digest == other.digest:
        return []
    names = sorted((set(one.parts) | set(other.parts)) - local)
    parts = [name for name in names if one.parts.get(name) != other.parts.get(name)]
    return parts if parts or local else ["state"]


def _rank_local_parts(reference: History | None, judged: list[Commit]) -> set[str]:
    """Parts that are sharded, or on which the fault-free twin's ranks differ at some step."""
    sharded = {name for commit in judged for name in commit.local}
    if reference is None:
        return sharded
    return sharded | {
        name
        for commits in reference.commits_by_step.values()
        for name in {name for commit in commits for name in commit.parts}
        if len({commit.parts.get(name) for commit in commits}) > 1
    }
