"""Each fault leads to one recovery, and nothing else does."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Recovery


@invariant(needs=["step.commit"], sources=["I-ONEVERDICT", "I-NOFALSEPOS", "I-HEALONCE"])
def one_recovery_per_fault(history: History, reference: History | None, scene: Scene) -> Finding:
    """Every fired fault that an outsider should notice has one recovery; every recovery has a fault.

    Faults that strike during a recovery may be answered by the same one. A scenario may state the
    number of recoveries itself (0 for one that must stay quiet).

    Smallest break: a recovery in a history without a fault.
    """
    fired = [fault for fault in history.faults.values() if fault.fired_t is not None]
    if scene.faults and not fired:
        return too_thin("no fault fired")
    recoveries = history.recoveries(ignore=scene.silent_faults)
    offences = Offences()
    for recovery in recoveries:
        if not recovery.faults:
            offences.add(f"{describe(recovery)} answers no fault", weight=1.0)
    answered = {fault_id for recovery in recoveries for fault_id in recovery.faults}
    unanswered = [fault for fault in fired if fault.id not in answered | scene.silent_faults]
    # A job that is meant to end (no holder left) ends instead of recovering.
    if scene.recoveries is None and scene.exit_code is None:
        for fault in unanswered:
            offences.add(f"fault {fault.id} ({fault.name} on rank {fault.rank}) has no recovery")
    if scene.recoveries is not None and len(recoveries) != scene.recoveries:
        offences.add(f"{len(recoveries)} recoveries, the scenario expects {scene.recoveries}")
    return offences.finding_or(held(f"{len(recoveries)} recoveries for {len(fired)} fired faults"))


def describe(recovery: Recovery) -> str:
    """``recovery into generation 3 (rank 2 crash)``."""
    causes = ", ".join(
        f"rank {cause.rank} {cause.kind or cause.detail or 'unknown'}" for cause in recovery.causes
    )
    into = f" into generation {recovery.generation}" if recovery.generation is not None else ""
    return f"recovery{into} ({causes or 'no cause named'})"
