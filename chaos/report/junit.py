"""JUnit XML of a report, for CI systems: one test case per scenario."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from chaos.report.model import Report, ScenarioReport

STAGES = ("fired", "verified", "undone", "undo_verified")


def junit(report: dict[str, object]) -> JUnitXml:
    """The report as JUnit XML.

    A scenario that ended as it states passes. Otherwise VIOLATED (or an unexpected PASS) is a failure,
    ERROR an error. INCONCLUSIVE is an error too: a CI gate that shows it as skipped would be green.
    """
    data = Report.model_validate(report)
    suite = TestSuite(data.suite)
    for name, value in (
        ("seed", data.seed),
        ("plan_hash", data.plan_hash),
        ("replay", data.replay),
        ("exit_code", data.exit_code),
    ):
        suite.add_property(name, str(value))
    suite.add_testcases([_case(data.suite, scenario) for scenario in data.scenarios])
    suite.time = data.wall_s
    xml = JUnitXml("torch-chaos")
    xml.add_testsuite(suite)
    return xml


def write_junit(report: dict[str, object], path: Path) -> None:
    """Write the JUnit XML file. Raises OSError if it can't be written."""
    junit(report).write(str(path), pretty=True)


def _case(suite: str, scenario: ScenarioReport) -> TestCase:
    case = TestCase(scenario.name, classname=f"torch-chaos.{suite}", time=scenario.wall_s or 0.0)
    if not scenario.as_expected:
        kind = Error if scenario.verdict in ("INCONCLUSIVE", "ERROR") else Failure
        result = kind(scenario.reason, type_=scenario.verdict)
        result.text = _evidence(scenario)
        case.result = [result]
    case.system_out = "\n".join(_lines(scenario))
    return case


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
