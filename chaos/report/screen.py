"""The moving part of a terminal: a run as lines of text, for any width and height. Pure.

Nothing is told by colour alone: every state, stage and phase has its word, every mark its sign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from chaos.report.course import Course, about
from chaos.report.now import LEGEND, FaultNow, Lane, Now, State
from chaos.report.table import seconds

STATE_STYLES = {
    State.DEAD: "bold red",
    State.STOPPED: "bold magenta",
    State.RECOVERING: "yellow",
    State.STARTING: "cyan",
    State.RUNNING: "green",
    State.FINISHED: "dim",
}
LAST_LINES = 4
FEWEST_LANES = 2
BAR = 24
# From this width on there is room for words that help, but can be done without.
WIDE = 76


@dataclass(frozen=True)
class Size:
    """Columns and rows that may be used."""

    width: int
    height: int


def lines_of(
    course: Course, now: Now, told: Sequence[str], at_s: tuple[float, float], size: Size
) -> list[Text]:
    """The screen while a scenario runs; no line is wider, and there are no more of them, than fits.

    Args:
        told: what has been said of the scenario, oldest first.
        at_s: the time now in monotonic seconds, and how long the scenario has been running.
    """
    now_s, running_s = at_s
    head = [_title(course, now, running_s, size.width), _steps(now, size.width)]
    head += [line for line in (_fault(now), _recovery(now, now_s)) if line is not None]
    legend = [_legend()] if size.width >= WIDE and now.lanes else []
    room = max(size.height, 1) - len(head)
    lanes = _lanes(list(now.lanes.values()), max(room - len(legend), FEWEST_LANES), size.width)
    room -= len(lanes) + len(legend)
    last = [Text(f"  {line}", "dim") for line in told[-LAST_LINES:][: max(room, 0)]]
    lines = [*head, *lanes, *legend, *last][: max(size.height, 1)]
    for line in lines:
        line.truncate(size.width, overflow="ellipsis")
    return lines


def waiting(course: Course) -> Text:
    """The screen between two scenarios."""
    return Text(f"{len(course.took_s)} of {course.total} scenarios")


def _title(course: Course, now: Now, running_s: float, width: int) -> Text:
    text = Text.assemble(f"[{len(course.took_s) + 1}/{course.total}] ", (now.name, "bold"))
    left = about(course.left_s(running_s))
    gap = width - text.cell_len - len(left)
    # The name matters more than the time.
    return text.append(" " * gap + left) if left and gap >= 2 else text


def _steps(now: Now, width: int) -> Text:
    done = now.step + 1
    text = Text(f"step {done}/{now.steps or '?'}  generation {now.generation}")
    if now.steps and width >= WIDE:
        filled = min(BAR, BAR * done // now.steps)
        text.append(f"  [{'#' * filled}{'-' * (BAR - filled)}]")
    return text


def _fault(now: Now) -> Text | None:
    fault = now.fault
    if fault is None:
        return None
    text = Text.assemble("fault ", (f"{fault.id} {fault.name}", "bold"))
    where = _where(fault)
    if fault.stage in ("planned", "armed", "reached"):
        return text.append(f": {fault.stage}" + (f", {fault.moment}" if fault.moment else ""))
    style = "yellow" if fault.active else "bold red" if fault.stage == "failed" else ""
    return text.append(where).append(": ").append(fault.stage.replace("_", " "), style)


def _where(fault: FaultNow) -> str:
    if fault.nodes:
        return f" node {_numbers(fault.nodes)}"
    return f" rank {_numbers(fault.ranks)}" if fault.ranks else ""


def _recovery(now: Now, now_s: float) -> Text | None:
    if (going := now.recovering) is not None:
        whom = f" rank {_numbers(going.ranks)}" if going.ranks else ""
        kind = f" ({going.kind})" if going.kind else ""
        phase = f", {going.phase}" if now.reports_recoveries else ""
        taken = f"{max(0.0, now_s - going.since_t) * 1e3:.0f} ms"
        return Text.assemble((f"recovering{whom}{kind}: {taken}{phase}", "bold yellow"))
    if (last := now.recovered) is not None:
        whom = f" rank {_numbers(last.ranks)}" if last.ranks else ""
        took = f" in {seconds(last.total_s)}" if last.total_s is not None else ""
        parts = ", ".join(f"{name} {taken * 1e3:.0f}" for name, taken in last.phases.items())
        return Text(f"recovered{whom}{took}" + (f": {parts}" if parts else ""))
    return None


def _lanes(lanes: list[Lane], most: int, width: int) -> list[Text]:
    """A line for each rank; of more than fit, the most troubled ones, and a count of the others."""
    lanes.sort(key=lambda lane: lane.rank)
    if len(lanes) <= most:
        return [_lane(lane, lanes, width) for lane in lanes]
    order = list(State)
    by_need = sorted(lanes, key=lambda lane: (order.index(lane.state), lane.rank))
    shown, others = by_need[: most - 1], by_need[most - 1 :]
    return [*(_lane(lane, lanes, width) for lane in shown), _others(others)]


def _others(lanes: list[Lane]) -> Text:
    counts = Counter(lane.state for lane in lanes)
    what = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    low, high = min(lane.step for lane in lanes) + 1, max(lane.step for lane in lanes) + 1
    return Text(f"and {len(lanes)} more: {what}; step {low}" + (f" to {high}" if high != low else ""))


def _lane(lane: Lane, lanes: list[Lane], width: int) -> Text:
    digits = len(str(lanes[-1].rank))
    steps = max(len(str(one.step + 1)) for one in lanes)
    wide = width >= WIDE
    text = Text(f"{'rank ' if wide else ''}{lane.rank:>{digits}}")
    if wide and any(one.node is not None for one in lanes):
        text.append(f" node {'?' if lane.node is None else lane.node}")
    text.append(" ").append(f"{lane.state:<10}", STATE_STYLES[lane.state])
    text.append(f" {'step ' if wide else ''}{lane.step + 1:>{steps}} ")
    if wide and any(one.generation is not None for one in lanes):
        text.append(f"gen {lane.generation or '?'} ")
    room = width - text.cell_len
    return text.append(lane.strip[-room:]) if room > 0 else text


def _legend() -> Text:
    return Text("  ".join(f"{mark} {word}" for mark, word in LEGEND.items()), "dim")


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)
