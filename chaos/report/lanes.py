"""A history as lanes: what report.html draws and what trace.json holds. Pure.

Rules kept here:

- A lane for the job, one for each node, one for each rank; what belongs to no rank or node is the job's.
- Times are seconds since the first event of the scenario.
- Nothing is guessed: a span without an end that was reported is a mark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.history import History
from chaos.records import Event, FaultTrail, int_of, list_of, map_of, text_of, time_of
from chaos.recoveries import PHASES
from chaos.report.lives import lives_of
from chaos.report.stored import Line

JOB = "job"
RESTART = "restart"


@dataclass(frozen=True)
class Span:
    """Something that lasted.

    Attributes:
        lane: its lane's name.
        kind: ``process``, ``member`` (a node in the job), a recovery's phase, or ``restart`` (the rest of a
            recovery that the target did not report itself).
        number: which recovery, from 0; None for other kinds.
    """

    lane: str
    kind: str
    start_s: float
    end_s: float
    title: str
    number: int | None = None


@dataclass(frozen=True)
class Step:
    """One step of one rank. `outcome`: commit, adopted (the state came from a peer) or rollback."""

    lane: str
    step: int
    start_s: float | None
    end_s: float
    outcome: str


@dataclass(frozen=True)
class Mark:
    """Something that happened at one moment. `line` is its line in the history."""

    lane: str
    kind: str
    at_s: float
    title: str
    line: int


@dataclass(frozen=True)
class Strike:
    """A fault while it was active. `end_s` is None if nothing says when it ended."""

    fault: str
    name: str
    lanes: tuple[str, ...]
    start_s: float
    end_s: float | None


@dataclass(frozen=True)
class Lanes:
    """One scenario, ready to be drawn."""

    names: tuple[str, ...]
    end_s: float
    spans: tuple[Span, ...]
    steps: tuple[Step, ...]
    marks: tuple[Mark, ...]
    strikes: tuple[Strike, ...]


def lanes_of(lines: Sequence[Line], unanswered: Collection[str] = ()) -> Lanes:
    """The lanes of one scenario.

    Args:
        lines: its events, oldest first.
        unanswered: ids of faults that no recovery answers, as the report has it.
    """
    history = History(line.event for line in lines)
    origin = time_of(history.events[0]) if history.events else 0.0
    nodes, ranks = _nodes(history), _ranks(history)
    names = (JOB, *(f"node {node}" for node in nodes), *(f"rank {rank}" for rank in ranks))
    spans = (*_recoveries(history, origin, unanswered), *_members(history, origin), *_lives(history, origin))
    return Lanes(
        names=names,
        end_s=max((time_of(event) - origin for event in history.events), default=0.0),
        spans=tuple(span for span in spans if span.lane in names),
        steps=tuple(_steps(history, origin)),
        marks=tuple(mark for mark in _marks(lines, origin) if mark.lane in names),
        strikes=tuple(_strikes(history, origin, names, unanswered)),
    )


def recovery_starts(
    history: History, unanswered: Collection[str] = ()
) -> list[tuple[float, Mapping[str, float]]]:
    """Start (monotonic seconds) and durations by phase of each recovery, in the order of the report."""
    found: list[tuple[float, Mapping[str, float]]] = []
    if history.has("recovery.done") or history.has("generation.open"):
        reported = list(history.of("recovery.done"))
        for event, recovery in zip(reported, history.recoveries(unanswered), strict=True):
            since = event.get("since_t")
            start = (
                float(since) if isinstance(since, (int, float)) else recovery.t - (recovery.total_s or 0.0)
            )
            phases = {name: getattr(recovery, f"{name}_s") or 0.0 for name in PHASES}
            found.append((start, phases))
        return found
    for recovery in history.recoveries(unanswered):
        total, detect = recovery.total_s or 0.0, recovery.detect_s or 0.0
        found.append((recovery.t - total, {"detect": detect, RESTART: max(0.0, total - detect)}))
    return found


def _recoveries(history: History, origin: float, unanswered: Collection[str]) -> Iterator[Span]:
    for number, (start, phases) in enumerate(recovery_starts(history, unanswered)):
        at = start - origin
        for phase, lasted in phases.items():
            if lasted > 0:
                yield Span(JOB, phase, at, at + lasted, f"{phase}: {lasted * 1000:.1f} ms", number)
            at += lasted


def _nodes(history: History) -> list[int]:
    found = {node for event in history.events if (node := int_of(event, "node")) is not None}
    for event in history.of("target.start"):
        listed = (int_of(node, "index") for node in list_of(event, "nodes") if isinstance(node, dict))
        found |= {node for node in listed if node is not None}
    return sorted(found)


def _ranks(history: History) -> list[int]:
    found = set(history.ranks)
    for event in history.of("generation.open"):
        members = (int_of(member, "rank") for member in list_of(event, "members") if isinstance(member, dict))
        found |= {rank for rank in members if rank is not None}
    return sorted(
        found | {rank for event in history.of("worker.start") if (rank := _rank(event)) is not None}
    )


def _rank(event: Event) -> int | None:
    # A spare has none yet; a data loader's worker carries its trainer's.
    return int_of(event, "rank")


def _members(history: History, origin: float) -> Iterator[Span]:
    """When each node was in the job, for a job whose coordinator says so."""
    since: dict[int, float] = {}
    end = time_of(history.events[-1]) if history.events else 0.0
    for event in history.of("node.joined", "node.returned", "node.lost", "node.evicted"):
        node = int_of(event, "about")
        if node is None:
            continue
        if event.get("event") in ("node.joined", "node.returned"):
            since.setdefault(node, time_of(event))
        elif node in since:
            yield _member(node, since.pop(node), time_of(event), origin)
    for node, start in since.items():
        yield _member(node, start, end, origin)


def _member(node: int, start: float, end: float, origin: float) -> Span:
    return Span(f"node {node}", "member", start - origin, end - origin, f"node {node} is in the job")


def _lives(history: History, origin: float) -> Iterator[Span]:
    for life in lives_of(history):
        where = "" if life.node is None else f" on node {life.node}"
        title = f"rank {life.rank}: process {life.pid}{where}"
        yield Span(f"rank {life.rank}", "process", life.start_t - origin, life.end_t - origin, title)


def _steps(history: History, origin: float) -> Iterator[Step]:
    begun: dict[tuple[int, int | None, int], float] = {}
    for event in history.of("step.begin", "step.commit", "step.rollback"):
        rank, step = int_of(event, "rank"), int_of(event, "step")
        if rank is None or step is None:
            continue
        key, at = (rank, int_of(event, "pid"), step), time_of(event) - origin
        match event.get("event"):
            case "step.begin":
                begun[key] = at
            case "step.commit":
                adopted = event.get("adopted") is True
                outcome = "adopted" if adopted else "commit"
                yield Step(f"rank {rank}", step, None if adopted else begun.pop(key, None), at, outcome)
            case _:
                yield Step(f"rank {rank}", step, begun.pop(key, None), at, "rollback")


def _marks(lines: Iterable[Line], origin: float) -> Iterator[Mark]:
    for line in lines:
        event = line.event
        name, at = text_of(event, "event") or "", time_of(event) - origin
        collective = map_of(event, "collective")
        if name == "fault.reached" and collective:
            # The only collectives that a history tells of are those at which a fault was due.
            yield Mark(_lane(event), "collective", at, f"{collective.get('op') or 'collective'}", line.number)
        elif name == "generation.open":
            yield Mark(JOB, "generation", at, f"generation {event.get('generation')}", line.number)
        elif name in ("worker.exit", "group.release", "straggler", "budget.exhausted"):
            yield Mark(_lane(event), name, at, _said(name, event), line.number)
        elif name.startswith("node.") and name != "node.session":
            yield Mark(f"node {event.get('about')}", name, at, _said(name, event), line.number)


def _said(name: str, event: Event) -> str:
    keys = ("pid", "code", "signal", "sockets", "reason", "detail")
    told = [f"{key} {event[key]}" for key in keys if event.get(key) not in (None, "")]
    return " ".join([name, *told])


def _lane(event: Event) -> str:
    rank = int_of(event, "rank")
    return JOB if rank is None else f"rank {rank}"


def _strikes(
    history: History, origin: float, names: Sequence[str], unanswered: Collection[str]
) -> Iterator[Strike]:
    recoveries = history.recoveries(unanswered)
    healed = {fault: recovery.t for recovery in recoveries for fault in recovery.faults}
    for fault in history.faults.values():
        if fault.fired_t is None:
            continue
        end = fault.undone_t if fault.undone_t is not None else healed.get(fault.id)
        yield Strike(
            fault.id,
            fault.name or "fault",
            tuple(lane for lane in _struck(fault) if lane in names) or (JOB,),
            fault.fired_t - origin,
            None if end is None else end - origin,
        )


def _struck(fault: FaultTrail) -> tuple[str, ...]:
    if fault.nodes:
        return tuple(f"node {node}" for node in fault.nodes) + tuple(f"rank {rank}" for rank in fault.ranks)
    return () if fault.rank is None else (f"rank {fault.rank}",)
