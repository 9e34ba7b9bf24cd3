"""Steps are committed in order, without a gap, by every rank."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Commit, int_of


@invariant(needs=["step.commit"], sources=["I-STEP"])
def committed_step_is_monotone_and_gap_free(
    history: History, reference: History | None, scene: Scene
) -> Finding:
    """A process commits k, k+1, k+2 ...; a new process of a rank continues where the job stands.

    A successor may start with the step that its predecessor committed last, or with the next one; or
    lower, with the newest step that another living member holds (the predecessor was ahead and took its
    step with it); or higher, if it received the state between (the predecessor died before it could
    tell). Where the whole job restarts from a checkpoint, a new process may start at any step that was
    reached before.

    Smallest break: one rank commits step 0 and then step 2.
    """
    received = {(int_of(event, "rank"), int_of(event, "pid")) for event in history.of("state.receive")}
    offences = Offences()
    for rank in history.ranks:
        before: Commit | None = None
        highest = -1
        for commit in history.commits(rank):
            if before is not None and _is_same_process(before, commit, scene):
                line = _same_process(before, commit)
            else:
                line = _successor(history, scene, commit, highest, (rank, commit.pid) in received)
            if line:
                offences.add(f"{commit.where}: {line}", weight=abs(commit.step - highest))
            before, highest = commit, max(highest, commit.step)
    total = len(history.commits())
    return offences.finding_or(held(f"{total} commits of {len(history.ranks)} ranks in order"))


def _is_same_process(before: Commit, commit: Commit, scene: Scene) -> bool:
    """Whether one process made both commits. Nameless ones do, unless the job may have restarted."""
    if commit.pid is None and scene.restarts_whole_job and commit.step <= before.step:
        return False
    return before.pid == commit.pid


def _same_process(before: Commit, commit: Commit) -> str | None:
    """Why a process may not commit this step after that one, or None."""
    if commit.step == before.step + 1:
        return None
    if commit.step <= before.step:
        return f"the same process had already committed step {before.step}"
    return f"the process jumped from step {before.step}: {commit.step - before.step - 1} missing"


def _successor(history: History, scene: Scene, commit: Commit, highest: int, received: bool) -> str | None:
    """Why a rank's new process may not begin with this step, or None. `highest`: the rank's so far."""
    if commit.step > highest + 1 and not received:
        return f"the rank had reached step {highest} only, and received no state in between"
    if scene.restarts_whole_job or commit.step >= highest:
        return None
    if commit.step < _newest_held_by_others(history, commit):
        return f"the successor went back: the rank had already committed step {highest}"
    return None


def _newest_held_by_others(history: History, commit: Commit) -> int:
    """The highest step that another member of the commit's generation had committed by then; -1 if none."""
    generation = history.generations.get(commit.generation or 0)
    members = {pid for _, pid in generation.members} if generation else None
    held_by_others = [
        other.step
        for other in history.commits()
        if other.t <= commit.t and other.pid != commit.pid and (members is None or other.pid in members)
    ]
    return max(held_by_others, default=-1)
