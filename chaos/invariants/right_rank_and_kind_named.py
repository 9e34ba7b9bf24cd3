"""A recovery names the rank that was broken, and how."""

from __future__ import annotations

import re

from chaos.history import History
from chaos.invariants.expectations import ABORT_SIGNAL
from chaos.invariants.finding import Finding, Offences, held, not_applicable
from chaos.invariants.invariant import invariant
from chaos.invariants.one_recovery_per_fault import describe, without_recovery
from chaos.invariants.scene import Scene
from chaos.records import Cause, FaultTrail, Recovery


@invariant(needs=["step.commit"], sources=["I-NAME"])
def right_rank_and_kind_named(history: History, reference: History | None, scene: Scene) -> Finding:
    """The causes of each recovery are the faults that it answers: same ranks, acceptable kinds.

    Acceptable kinds come from the fault (``Fault.expects``). An error in a collective may go without a
    rank: each side sees only that it failed. Where ranks are out of step gloo may abort a neighbour too;
    that may be named beside the rank that was out of step, not instead of it. A node is named by its
    number: one that was aimed at, or is at an end of a way that was cut. Recoveries without a fault are the
    business of `one_recovery_per_fault`.

    Smallest break: rank 1 is killed and the recovery says rank 2.
    """
    if not scene.shows_runtime_events:
        return not_applicable(f"a {scene.kind} target names no causes")
    recoveries = [r for r in history.recoveries(ignore=scene.silent_faults) if r.faults]
    if not recoveries:
        return without_recovery(history, scene)
    offences = Offences()
    for recovery in recoveries:
        _judge(recovery, [history.faults[fault_id] for fault_id in recovery.faults], scene, offences)
    return offences.finding_or(held(f"{len(recoveries)} recoveries name their faults"))


def _judge(recovery: Recovery, faults: list[FaultTrail], scene: Scene, offences: Offences) -> None:
    said = ", ".join(f"{fault.name} on rank {fault.rank}" for fault in faults)
    for cause in recovery.causes:
        if not any(_names(cause, fault, scene) or _is_echo(cause, fault, scene) for fault in faults):
            offences.add(f"{describe(recovery)}: cause rank {cause.rank} {cause.kind} is none of: {said}")
    for fault in faults:
        if not any(_names(cause, fault, scene) for cause in recovery.causes):
            offences.add(f"{describe(recovery)}: {fault.name} on rank {fault.rank} is not named")


def _names(cause: Cause, fault: FaultTrail, scene: Scene) -> bool:
    """Whether the cause is this fault: its rank, and a kind that an outsider may see of it."""
    planned = scene.fault(fault.id)
    if planned is None:
        return cause.rank == fault.rank
    if cause.kind in ("node_lost", "unreachable"):
        # A node has several ranks or none, so its number names it: "node 1: ...", "nodes that ...: 1 and 2".
        said = {int(number) for number in re.findall(r"(?:node |nodes [^:]*: | and )(\d+)", cause.detail)}
        return bool(said) and said <= fault.touched and "node_lost" in planned.kinds
    nameless = cause.rank is None and cause.kind == "collective_error"
    if not (planned.any_rank or nameless or cause.rank == fault.rank):
        return False
    # Its own abort may come before the loss of step is seen: 8 of 24 skipped buckets.
    return cause.kind in planned.kinds or _is_echo(cause, fault, scene)


def _is_echo(cause: Cause, fault: FaultTrail, scene: Scene) -> bool:
    """Whether the cause may follow from the fault.

    gloo aborts a neighbour of a rank out of step; and behind a cut everyone waits or fails before it is
    known which node is gone.
    """
    planned = scene.fault(fault.id)
    if fault.nodes and cause.rank is None and cause.kind in ("hang", "collective_error"):
        return True
    aborted = cause.kind == "crash" and f"signal {ABORT_SIGNAL}" in cause.detail
    return planned is not None and planned.may_abort and aborted
