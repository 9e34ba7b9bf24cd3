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

    A successor may start with the step that its predecessor committed last, or with the next one. It
    may also start above that if it received the state between (the predecessor died between its own
    commit and the word of it). Where the whole job restarts from a checkpoint, a new process may
    start at any step that was reached before.

    Smallest break: one rank commits step 0 and then step 2.
    """
    received = {(int_of(event, "rank"), int_of(event, "pid")) for event in history.of("state.receive")}
    offences = Offences()
    for rank in history.ranks:
        before: Commit | None = None
        highest = -1
        for commit in history.commits(rank):
            line = _offence(before, commit, highest, scene, (rank, commit.pid) in received)
            if line:
                offences.add(f"{commit.where}: {line}", weight=abs(commit.step - highest))
            before, highest = commit, max(highest, commit.step)
    total = len(history.commits())
    return offences.finding_or(held(f"{total} commits of {len(history.ranks)} ranks in order"))


def _offence(before: Commit | None, commit: Commit, highest: int, scene: Scene, received: bool) -> str | None:
    """Why this commit is out of order, or None."""
    if before is not None and commit.pid == before.pid:
        if commit.step == before.step + 1:
            return None
        if commit.step <= before.step:
            return f"the same process had already committed step {before.step}"
        return f"the process jumped from step {before.step}: {commit.step - before.step - 1} missing"
    if commit.step > highest + 1 and not received:
        return f"the rank had reached step {highest} only, and received no state in between"
    if scene.restarts_whole_job or before is None:
        return None
    if commit.step < highest:
        return f"the successor went back: the rank had already committed step {highest}"
    return None
