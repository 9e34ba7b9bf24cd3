"""Only a fault's victim is replaced: every other rank keeps its process."""

from __future__ import annotations

from collections import defaultdict

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.seats import is_victim, seats


@invariant(needs=["step.commit"], sources=["I-BLAST"])
def healthy_ranks_keep_their_process(history: History, reference: History | None, scene: Scene) -> Finding:
    """A rank changes its process, and a process ends unexpectedly, only if a fault struck that process.

    Processes are told apart by pid and start time. Not applicable where the whole job restarts by
    design.

    Smallest break: rank 1 is killed and rank 2 too comes back with another pid.
    """
    if scene.restarts_whole_job:
        return not_applicable("the whole job restarts after a fault, by design of the target")
    offences = Offences()
    sitting: dict[int, int] = {}
    known = seats(history)
    if not known:
        return too_thin("no commit or start names its process")
    for seat in known:
        old = sitting.get(seat.rank)
        if old is not None and old != seat.pid and not is_victim(history, scene, seat.rank, old, seat.t):
            offences.add(f"rank {seat.rank} changed from pid {old} to {seat.pid}, which no fault struck")
        sitting[seat.rank] = seat.pid
    for exit_ in history.exits:
        if not exit_.expected and not is_victim(history, scene, exit_.rank, exit_.pid, exit_.t):
            how = f"signal {exit_.signal}" if exit_.signal is not None else f"code {exit_.code}"
            offences.add(f"pid {exit_.pid} (rank {exit_.rank}) ended by {how}, and no fault struck it")
    ticks: dict[int, set[int]] = defaultdict(set)
    for worker in history.workers:
        if worker.start_ticks is not None:
            ticks[worker.pid].add(worker.start_ticks)
    for pid, seen in ticks.items():
        if len(seen) > 1 and pid in sitting.values():
            offences.add(f"pid {pid} was started {len(seen)} times: the number was used again")
    return offences.finding_or(held(f"{len(sitting)} ranks, {len({seat.pid for seat in known})} processes"))
