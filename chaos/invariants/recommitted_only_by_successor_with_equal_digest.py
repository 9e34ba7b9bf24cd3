"""A step is committed again only by a successor of the rank, and with the same result."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.state_equals_twin import short
from chaos.records import Commit


@invariant(needs=["step.commit"], sources=["I-STEP", "I-FENCE"])
def recommitted_only_by_successor_with_equal_digest(
    history: History, reference: History | None, scene: Scene
) -> Finding:
    """Two commits of one (rank, step) are by two processes, the later in a later generation, equal.

    A rank may commit a step and die before anyone else does; its successor commits it again. Where the
    whole job restarts from a checkpoint, every step since is committed again, by new processes.

    Smallest break: one process commits one step twice.
    """
    by_address: dict[tuple[int, int], list[Commit]] = defaultdict(list)
    for commit in history.commits():
        by_address[commit.rank, commit.step].append(commit)
    offences = Offences()
    repeated = bare = 0
    for commits in by_address.values():
        for one, again in pairwise(commits):
            repeated += 1
            if not (one.digest and again.digest):
                bare += 1
            line = _offence(one, again)
            if line:
                offences.add(f"{again.where}: committed again {line}")
    if offences:
        return offences.finding()
    if bare and scene.shows_runtime_events:
        return too_thin(f"{bare} of {repeated} repeated commits carry no digest")
    return held(
        f"{repeated} steps committed again, each by a successor"
        + (f"; {bare} without a digest" if bare else "")
    )


def _offence(one: Commit, again: Commit) -> str | None:
    if one.pid is not None and one.pid == again.pid:
        return "by the same process"
    if one.generation is not None and again.generation is not None and again.generation <= one.generation:
        return f"in generation {again.generation}, not later than {one.generation} (pid {one.pid})"
    if one.digest and again.digest and one.digest != again.digest:
        return f"with {short(again.digest)}, was {short(one.digest)} (pid {one.pid})"
    return None
