"""When the last fault is healed, the job commits again."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.exit_code_is_honest import stopped_by_tool, unfinished
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import time_of

# A job that the tool stopped while it still committed was slow; one that had been silent for this
# long was stuck. Longer than any recovery bound of a shipped suite.
STUCK_S = 5.0


@invariant(needs=["step.commit"], sources=["I-PROGRESS", "I-TERMINATE"])
def progress_after_heal(history: History, reference: History | None, scene: Scene) -> Finding:
    """Some rank commits a step of its own after the last fault was undone (or fired, if it has no undo).

    A job that had every planned step committed by every rank needs no further commit. A scenario that
    is meant to end the job is left out.

    Smallest break: no commit after the only fault, steps left.
    """
    if scene.is_meant_to_end:
        return not_applicable(f"the job is meant to end with exit code {scene.exit_code}")
    lagging = unfinished(history, reference, scene)
    own = [commit for commit in history.commits() if not commit.adopted]
    if lagging == []:
        return held("every rank committed every planned step")
    if not own:
        return too_thin("no rank committed a step of its own")
    healed_t = _healed_t(history)
    after = [commit for commit in own if commit.t > healed_t]
    offences = Offences()
    if healed_t > float("-inf") and not after:
        offences.add(f"no commit after the last fault was healed; the last one was {own[-1].where}")
    elif stopped_by_tool(history):
        silent_s = time_of(history.of("target.exit")[-1]) - own[-1].t
        if silent_s > STUCK_S:
            offences.add(
                f"no commit in the last {silent_s:.1f} s before the tool stopped the target; "
                f"the last one was {own[-1].where}"
            )
    elif lagging:
        rank, step = lagging[0]
        offences.add(f"the job ended with rank {rank} at step {step} of {scene.steps}")
    return offences.finding_or(held(f"{len(after)} commits after the last fault was healed"))


def _healed_t(history: History) -> float:
    """When the last fault was over, monotonic seconds; -inf if none fired.

    An undo after the target's end healed nothing; such a fault counts from the moment it fired.
    """
    end_t = min((time_of(event) for event in history.of("target.exit")), default=float("inf"))
    over = [
        fault.undone_t if fault.undone_t is not None and fault.undone_t < end_t else fault.fired_t
        for fault in history.faults.values()
        if fault.fired_t is not None
    ]
    return max((t for t in over if t is not None), default=float("-inf"))
