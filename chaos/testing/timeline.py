"""A history as a few lines of text: what struck, what was seen and done about it, the steps between."""

from __future__ import annotations

from chaos.history import History
from chaos.records import Event, int_of, text_of, time_of
from chaos.report.live import line_of
from chaos.report.stored import HISTORY

MOST = 40
WIDTH = 160
PHASES = ("recovery.fence", "recovery.regroup", "recovery.transfer", "recovery.resume")


def timeline(history: History, most: int = MOST) -> list[str]:
    """Lines with the seconds since the run's begin; of more than `most`, the middle is left out."""
    if not history.events:
        return ["(nothing happened)"]
    began = time_of(history.events[0])
    lines: list[str] = []
    steps: dict[int, float] = {}
    for event in history.events:
        if event.get("event") == "step.commit":
            step = int_of(event, "step")
            if step is not None:
                steps[step] = time_of(event)
            continue
        said = _said(event)
        if said is None:
            continue
        lines += _steps(steps, began)
        steps = {}
        lines.append(f"{time_of(event) - began:8.3f} s  {' '.join(said.split())}"[:WIDTH])
    lines += _steps(steps, began)
    if len(lines) <= most:
        return lines
    head = most // 2
    left_out = f"            ... {len(lines) - most} lines left out; all are in {HISTORY}"
    return [*lines[:head], left_out, *lines[head - most :]]


def _steps(steps: dict[int, float], began: float) -> list[str]:
    """What was committed since the line before."""
    if not steps:
        return []
    first, last = min(steps), max(steps)
    which = f"step {first}" if first == last else f"steps {first} to {last}"
    return [f"{max(steps.values()) - began:8.3f} s  {which} committed"]


def _said(event: Event) -> str | None:
    name = text_of(event, "event") or ""
    if name in PHASES:
        return f"recovery: {name.removeprefix('recovery.')}"
    if name == "step.rollback":
        reason = text_of(event, "reason")
        return f"rank {event.get('rank')} rolled step {event.get('step')} back" + (
            f": {reason}" if reason else ""
        )
    if name == "target.exit":
        return _exit(event)
    if name == "leak.check":
        left = [
            f"{key}: {event[key]}"
            for key in ("processes", "shm", "sockets", "files", "nodes")
            if event.get(key)
        ]
        return f"left behind: {'; '.join(left)}" if left else None
    return line_of(event)


def _exit(event: Event) -> str:
    if event.get("timed_out"):
        return str(event.get("detail") or "the deadline passed, the job was stopped")
    code, signal = event.get("code"), event.get("signal")
    return (
        f"the job ended with exit code {code}" if signal is None else f"the job was ended by signal {signal}"
    )
