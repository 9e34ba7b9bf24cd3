"""Each fault leads to one recovery, and nothing else does."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import FaultTrail, Recovery


@invariant(needs=["step.commit"], sources=["I-ONEVERDICT", "I-NOFALSEPOS", "I-HEALONCE"])
def one_recovery_per_fault(history: History, reference: History | None, scene: Scene) -> Finding:
    """Every fired fault that an outsider should notice has one recovery; every recovery has a fault.

    Faults that strike during a recovery may be answered by the same one. A scenario may state the number
    of recoveries itself: 0 for one that must stay quiet; any other number than that of its faults is
    taken exactly. A job that stood still after the fault is the business of `progress_after_heal`. A
    target of which we do not know what it reacts to may ride a fault out.

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
    stated, loud = scene.recoveries, len(scene.faults) - len(scene.silent_faults)
    if stated not in (None, loud):
        if len(recoveries) != stated and not scene.is_meant_to_end:
            offences.add(f"{len(recoveries)} recoveries, the scenario expects {stated}")
    elif (scene.shows_runtime_events or stated is not None) and not scene.is_meant_to_end:
        answered = {fault_id for recovery in recoveries for fault_id in recovery.faults}
        for fault in fired:
            if fault.id not in answered | scene.silent_faults and went_on(history, fault):
                offences.add(f"fault {fault.id} ({fault.name} on rank {fault.rank}) has no recovery")
    return offences.finding_or(held(f"{len(recoveries)} recoveries for {len(fired)} fired faults"))


def describe(recovery: Recovery) -> str:
    """``recovery into generation 3 (rank 2 crash)``."""
    causes = ", ".join(
        f"rank {cause.rank} {cause.kind or cause.detail or 'unknown'}" for cause in recovery.causes
    )
    into = f" into generation {recovery.generation}" if recovery.generation is not None else ""
    return f"recovery{into} ({causes or 'no cause named'})"


def went_on(history: History, fault: FaultTrail) -> bool:
    """Whether the job committed on after the fault: in a newer generation, or two steps further.

    One step further proves nothing: a rank may finish the step in which a peer is struck.
    """
    fired_t = fault.fired_t or 0.0
    before = max((commit.step for commit in history.commits() if commit.t < fired_t), default=-1)
    return any(
        commit.step >= before + 2
        or (
            commit.generation is not None
            and fault.generation is not None
            and commit.generation > fault.generation
        )
        for commit in history.commits()
        if commit.t >= fired_t and not commit.adopted
    )


def without_recovery(history: History, scene: Scene) -> Finding:
    """The finding of an invariant that speaks of recoveries, where there was none."""
    loud = [
        fault
        for fault in history.faults.values()
        if fault.fired_t is not None and fault.id not in scene.silent_faults
    ]
    if not loud:
        return not_applicable("nothing to recover from")
    if scene.is_meant_to_end:
        return not_applicable("the job is meant to end, not to recover")
    if not scene.shows_runtime_events and all(went_on(history, fault) for fault in loud):
        return not_applicable("the target rode the faults out")
    return too_thin("no recovery was seen")
