"""JUnit XML of a report, for CI systems: one test case per scenario."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from chaos.report.model import Report, ScenarioReport

STAGES = ("fired", "verified", "undone", "undo_verified")
Inconclusive = Literal["error", "fail", "skip"]
"""What a CI system is told of a scenario of which nothing could be proven."""


def junit(report: dict[str, object], inconclusive: Inconclusive = "error") -> JUnitXml:
    """The report as JUnit XML.

    A scenario that ended as it states passes. Otherwise VIOLATED (or an unexpected PASS) is a failure, and
    ERROR an error. INCONCLUSIVE is an error too unless the caller says otherwise: a gate that shows it as
    skipped is green. Seeds, the plan's hash and the commands that replay the run and each scenario are
    properties of the suite: the common schema knows none of a test case.
    """
    return junit_of([report], inconclusive)


def junit_of(reports: Sequence[dict[str, object]], inconclusive: Inconclusive = "error") -> JUnitXml:
    """Several reports in one file, a suite each."""
    checked = [Report.model_validate(report) for report in reports]
    xml = JUnitXml("torch-chaos")
    for data in checked:
        xml.add_testsuite(_suite(data, inconclusive))
    xml.update_statistics()  # type: ignore[no-untyped-call]  # the library types all but this
    # The library adds up the cases' times; a run also takes the time of its reference runs.
    for data, suite in zip(checked, xml, strict=True):
        suite.time = data.wall_s
    xml.time = round(sum(data.wall_s for data in checked), 3)
    return xml


def _suite(data: Report, inconclusive: Inconclusive) -> TestSuite:
    suite = TestSuite(data.suite)
    started = _started(data)
    if started is not None:
        suite.timestamp = started
    for name, value in _properties(data):
        suite.add_property(name, value)
    suite.add_testcases([_case(data.suite, scenario, inconclusive) for scenario in data.scenarios])
    return suite


def write_junit(report: dict[str, object], path: Path, inconclusive: Inconclusive = "error") -> None:
    """Write the JUnit XML file. Raises OSError if it can't be written."""
    junit(report, inconclusive).write(str(path), pretty=True)


def _properties(data: Report) -> Iterable[tuple[str, str]]:
    yield "seed", str(data.seed)
    yield "plan_hash", data.plan_hash
    yield "replay", data.replay
    yield "exit_code", str(data.exit_code)
    for scenario in data.scenarios:
        yield f"seed:{scenario.name}", str(scenario.seed)
        yield f"replay:{scenario.name}", scenario.replay


def _started(data: Report) -> str | None:
    """When the run began, in UTC and without an offset: the form that all readers take."""
    told = data.environment.get("started")
    if not isinstance(told, str):
        return None
    return datetime.fromisoformat(told).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _case(suite: str, scenario: ScenarioReport, inconclusive: Inconclusive) -> TestCase:
    case = TestCase(scenario.name, classname=f"torch-chaos.{suite}", time=scenario.wall_s or 0.0)
    if not scenario.as_expected:
        result = _kind(scenario.verdict, inconclusive)(scenario.reason, type_=scenario.verdict)
        result.text = _evidence(scenario)
        case.result = [result]
    case.system_out = "\n".join(_lines(scenario))
    return case


def _kind(verdict: str, inconclusive: Inconclusive) -> type[Error] | type[Failure] | type[Skipped]:
    match verdict, inconclusive:
        case ("INCONCLUSIVE", "skip"):
            return Skipped
        case ("ERROR", _) | ("INCONCLUSIVE", "error"):
            return Error
        case _:
            return Failure


def _evidence(scenario: ScenarioReport) -> str:
    lines = [f"expected {scenario.expected}, got {scenario.verdict}: {scenario.reason}"]
    for item in scenario.invariants:
        if item.verdict not in ("VIOLATED", "INCONCLUSIVE"):
            continue
        lines.append(f"{item.verdict} {item.name}: {item.detail}")
        lines += [
            f"  {label}: {line}"
            for label, line in (("first", item.first), ("worst", item.worst), ("last", item.last))
            if line
        ]
    return "\n".join([*lines, f"replay: {scenario.replay}"])


def _lines(scenario: ScenarioReport) -> Iterable[str]:
    yield f"verdict {scenario.verdict} (expected {scenario.expected}), seed {scenario.seed}"
    for fault in scenario.faults:
        marks = ", ".join(stage for stage in STAGES if getattr(fault, stage))
        yield f"fault {fault.id} {fault.name} rank {fault.rank} step {fault.step}: {marks or 'did not fire'}"
    for item in scenario.invariants:
        yield f"{item.verdict} {item.name}: {item.detail}"
    yield f"replay: {scenario.replay}"
