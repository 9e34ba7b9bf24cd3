"""What a failed test says of its run: first evidence, timeline, stacks, and how to run it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chaos.history import History
from chaos.report.model import FaultReport, InvariantReport, ScenarioReport
from chaos.report.stored import HISTORY
from chaos.testing.result import Result
from chaos.testing.timeline import timeline

STACK_LINES = 120


def section(result: Result) -> str:
    """The text of a result's section."""
    return "\n".join(_lines(result))


def unfinished(folder: Path) -> str:
    """The text for a run that came to no verdict: what there is in its folder."""
    lines = ["the run came to no verdict"]
    for path in sorted(folder.glob(f"*/{HISTORY}")):
        lines += [f"timeline of {path.parent.name}:", *(f"  {line}" for line in timeline(History.load(path)))]
        lines += _stacks(path.with_name("stacks.txt"))
    return "\n".join([*lines, f"report: {folder}"])


def _lines(result: Result) -> Iterator[str]:
    scenario = result.first
    yield f"{scenario.name}: {scenario.verdict} (expected {scenario.expected}), seed {result.plan.seed}"
    yield f"first evidence: {scenario.reason}"
    # Where nothing was tested every check is inconclusive, which says nothing more.
    for finding in scenario.invariants if scenario.verdict != "ERROR" else ():
        if finding.verdict == scenario.verdict:
            yield from _finding(finding)
    for fault in scenario.faults:
        yield _fault(fault)
    folder = result.folder / scenario.name
    if (folder / HISTORY).is_file():
        yield "timeline:"
        yield from (f"  {line}" for line in timeline(History.load(folder / HISTORY)))
    yield from _stacks(folder / "stacks.txt")
    yield from _last_words(folder / "stderr.log", scenario)
    if result.report.environment.get("left_over"):
        yield f"LEFT OVER: {result.report.environment['left_over']}"
    yield f"report: {result.folder}"
    yield f"replay: {scenario.replay}"


def _finding(finding: InvariantReport) -> Iterator[str]:
    yield f"{finding.verdict} {finding.name}: {finding.detail}"
    told = {finding.detail}
    for label, line in (("first", finding.first), ("worst", finding.worst), ("last", finding.last)):
        if line and line not in told:
            yield f"  {label}: {line}"
            told.add(line)


def _fault(fault: FaultReport) -> str:
    done = [stage for stage in ("fired", "verified", "undone", "undo_verified") if getattr(fault, stage)]
    place = "".join(
        f" {name} {value}"
        for name, value in (("rank", fault.rank), ("step", fault.step))
        if value is not None
    )
    return f"fault {fault.id} {fault.name}{place}: {', '.join(done) or 'did not fire'}"


def _stacks(path: Path) -> Iterator[str]:
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    yield "every rank's Python stack when the deadline passed:"
    yield from (f"  {line}" for line in lines[:STACK_LINES])
    if len(lines) > STACK_LINES:
        yield f"  ... {len(lines) - STACK_LINES} more lines in {path}"


def _last_words(path: Path, scenario: ScenarioReport) -> Iterator[str]:
    """The end of the job's stderr, where the job itself failed."""
    if scenario.verdict != "ERROR" or not path.is_file():
        return
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if lines:
        yield "the end of the job's stderr:"
        yield from (f"  {line}" for line in lines[-15:])
