"""Detection and recovery stay within the scenario's bounds, and the phases add up to the whole."""

from __future__ import annotations

from statistics import median

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.one_recovery_per_fault import describe, without_recovery
from chaos.invariants.scene import Scene
from chaos.records import Recovery

# Phase boundaries are written by several processes one after the other; a few milliseconds between
# two of them belong to neither.
SUM_TOLERANCE_S = 0.005
SUM_TOLERANCE_RATIO = 0.05


@invariant(needs=["step.commit"], sources=["I-DETECT", "I-BOUND", "I-PHASES"])
def recovered_within_bounds(history: History, reference: History | None, scene: Scene) -> Finding:
    """``detect_s`` and the total are within bounds; phases differ from the total by at most 5 % or 5 ms.

    The total is held against the bound twice: as the target reports it, and as the judge measures it
    from ``fault.fired`` to the next commit of the job.

    Smallest break: a recovery whose total exceeds the scenario's bound.
    """
    recoveries = [r for r in history.recoveries(ignore=scene.silent_faults) if r.faults]
    if not recoveries:
        return without_recovery(history, scene)
    offences = Offences()
    bare = 0
    for recovery in recoveries:
        _judge_bounds(recovery, scene, offences)
        gap_s, allowed_s = _phase_gap_s(recovery)
        if gap_s is None:
            bare += not recovery.derived
        elif gap_s > allowed_s:
            offences.add(f"{describe(recovery)}: phases and total differ by {gap_s * 1000:.0f} ms", gap_s)
    if offences:
        return offences.finding()
    if bare:
        return too_thin(f"{bare} recoveries report no phases or no total")
    if any(recovery.measured_s is None for recovery in recoveries):
        return too_thin("no commit followed a recovery")
    return held(_summary(recoveries))


def _judge_bounds(recovery: Recovery, scene: Scene, offences: Offences) -> None:
    for label, value_s, bound_s in (
        ("detected after", recovery.detect_s, scene.detect_s),
        ("reported total", recovery.total_s, scene.recover_s),
        ("fault to next commit", recovery.measured_s, scene.recover_s),
    ):
        if value_s is not None and bound_s is not None and value_s > bound_s:
            offences.add(f"{describe(recovery)}: {label} {value_s:.3f} s, bound {bound_s:.3f} s", value_s)


def _phase_gap_s(recovery: Recovery) -> tuple[float | None, float]:
    """How far phases and total are apart, and how far they may be; None if a figure is missing."""
    phases = (recovery.detect_s, recovery.fence_s, recovery.regroup_s, recovery.transfer_s, recovery.resume_s)
    known = [phase for phase in phases if phase is not None]
    if recovery.total_s is None or len(known) < len(phases):
        return None, 0.0
    return abs(sum(known) - recovery.total_s), max(SUM_TOLERANCE_S, SUM_TOLERANCE_RATIO * recovery.total_s)


def _summary(recoveries: list[Recovery]) -> str:
    measured = [r.measured_s for r in recoveries if r.measured_s is not None]
    reported = [r.total_s for r in recoveries if r.total_s is not None]
    said = f"; reported median {median(reported):.3f} s, worst {max(reported):.3f} s" if reported else ""
    return (
        f"{len(recoveries)} recoveries, fault to next commit median {median(measured):.3f} s, "
        f"worst {max(measured):.3f} s{said}"
    )
