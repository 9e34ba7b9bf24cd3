"""Every planned fault fired, was verified from outside, and was undone where that is needed."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import PlannedFault, Scene
from chaos.records import FaultTrail


@invariant(needs_job=False, sources=["I-INJECT"])
def faults_took_effect(history: History, reference: History | None, scene: Scene) -> Finding:
    """Each fault of the plan left its evidence: fired, verified, undone, undo verified.

    It is the tool that failed if not, never the target: so this is INCONCLUSIVE, never VIOLATED.

    Smallest break: a planned fault that the history does not mention.
    """
    if not scene.faults:
        return not_applicable("the scenario has no fault")
    lines = []
    for planned in scene.faults:
        lack = _lack(planned, history.faults.get(planned.id))
        if lack:
            lines.append(f"fault {planned.id} ({planned.name}) {lack}")
    if lines:
        return too_thin(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""))
    return held(f"{len(scene.faults)} faults fired and verified")


def _lack(planned: PlannedFault, trail: FaultTrail | None) -> str | None:
    """What is missing of a fault's evidence, or None."""
    if trail is None:
        return "was never armed"
    why = f": {trail.failed}" if trail.failed else ""
    if trail.fired_t is None:
        if trail.reached_t is not None:
            return f"was reached but did not fire{why}"
        return f"did not fire{why or ': its trigger never came'}"
    if trail.verified_t is None:
        return f"fired, but its effect was not verified{why}"
    if planned.needs_undo and trail.undone_t is None:
        return f"was not undone{why}"
    if trail.undone_t is not None and trail.undo_verified_t is None:
        return f"was undone, but nobody verified it{why}"
    return None
