"""From the engine's ``fault.*`` events to one trail per planned fault."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from chaos.records import Event, FaultTrail, int_of, list_of, map_of, text_of, time_of

STAGES = ("armed", "reached", "fired", "verified", "undone", "undo_verified")
CHECKS = ("verified", "undo_verified")


def trails(events: Iterable[Event]) -> dict[str, FaultTrail]:
    """One trail per fault id, in order of first mention.

    The victim is whoever ``fault.fired`` names: the process that reached the trigger may be another
    one. The first report of a stage counts; evidence is kept per stage.
    """
    found: dict[str, FaultTrail] = {}
    for event in events:
        fault, stage = text_of(event, "fault"), (text_of(event, "event") or "").removeprefix("fault.")
        if fault is None:
            continue
        known = _with_stage(found.get(fault, FaultTrail(id=fault)), stage, event)
        found[fault] = _with_address(known, stage, event)
    return found


def _with_stage(trail: FaultTrail, stage: str, event: Event) -> FaultTrail:
    evidence = map_of(event, "evidence")
    if stage == "failed":
        why = text_of(event, "detail") or text_of(event, "reason") or str(evidence or "no reason given")
        return replace(trail, failed=trail.failed or why)
    if stage not in STAGES or getattr(trail, f"{stage}_t") is not None:
        return trail
    # Evidence that says "no" is a failed check, whatever the event is called. Only a check can fail so:
    # a fault whose own report is doubtful still counts as fired.
    if stage in CHECKS and evidence.get("proven") is False:
        return replace(
            trail,
            failed=trail.failed or str(evidence.get("what") or evidence),
            evidence={**trail.evidence, stage: evidence},
        )
    times = {f"{stage}_t": time_of(event)}
    merged = {**trail.evidence, stage: evidence} if evidence else trail.evidence
    return replace(trail, evidence=merged, **times)  # type: ignore[arg-type]  # keys are STAGES


def _with_address(trail: FaultTrail, stage: str, event: Event) -> FaultTrail:
    """Fill in what is unknown; ``fired`` overrides what an earlier stage said."""

    def pick(known: int | None, key: str) -> int | None:
        value = int_of(event, key)
        return value if value is not None and (known is None or stage == "fired") else known

    step, generation = pick(trail.step, "step"), pick(trail.generation, "generation")
    named = replace(
        trail,
        name=trail.name or text_of(event, "name"),
        step=step,
        generation=generation,
        phase=trail.phase or text_of(event, "phase"),
    )
    if stage not in ("fired", "verified"):
        return named
    nodes = _numbers(event, "nodes")
    if nodes or trail.nodes:
        # The process that such an event names is the engine's own: a node is no process.
        ranks = _numbers(event, "ranks") or trail.ranks
        return replace(named, rank=pick(trail.rank, "rank"), nodes=nodes or trail.nodes, ranks=ranks)
    return replace(named, rank=pick(trail.rank, "rank"), pid=pick(trail.pid, "pid"))


def _numbers(event: Event, key: str) -> tuple[int, ...]:
    return tuple(item for item in list_of(event, key) if isinstance(item, int))
