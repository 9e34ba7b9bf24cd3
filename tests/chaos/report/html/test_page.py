from __future__ import annotations

from pathlib import Path

import pytest

from chaos.report.html.model import Page, ScenarioView
from chaos.report.html.page import base_name, page, times_view
from chaos.report.model import Report
from chaos.report.stored import Scenario, Stored, read
from tests.chaos.report.folder import HOSTILE, write_run


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return read(write_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def found(stored: Stored) -> Page:
    return page(stored, ["process.kill", "net.delay"])


def named(found: Page, name: str) -> ScenarioView:
    return next(scenario for scenario in found.scenarios if scenario.name == name)


def test_the_headline_counts_what_is_not_as_expected(found: Page) -> None:
    assert found.headline == "7 scenarios, 3 not as expected"
    assert not found.fine
    assert dict(found.figures)["exit code"].startswith("1: an invariant was violated")


def test_each_verdict_has_a_sign_and_says_what_was_expected(found: Page) -> None:
    verdicts = {scenario.name: scenario.verdict for scenario in found.scenarios}
    assert (verdicts["stale_state"].word, verdicts["stale_state"].sign) == ("VIOLATED", "✗")
    assert verdicts["stale_state"].note == "expected PASS"
    assert verdicts["kill_in_backward.1"].note == ""
    assert len({verdict.sign for verdict in verdicts.values()}) == len({v.word for v in verdicts.values()})


def test_what_was_violated_stands_first(found: Page) -> None:
    words = [item.verdict.word for item in named(found, "stale_state").invariants]
    assert words[0] == "VIOLATED"
    assert words == sorted(words, key=["VIOLATED", "INCONCLUSIVE", "PASS", "NOT_APPLICABLE"].index)


def test_a_scenario_has_all_its_parts(found: Page) -> None:
    scenario = named(found, "kill_in_backward.1")
    assert scenario.timeline is not None
    assert scenario.curve is not None
    assert scenario.curve.summary.startswith("equal to the twin's")
    assert len(scenario.faults) == 3
    assert len(scenario.recoveries) == 2
    assert scenario.lines
    assert scenario.description == "About kill_in_backward.1."
    assert scenario.replay.endswith("--only kill_in_backward.1")


def test_anchors_are_unique_over_the_page(found: Page) -> None:
    anchors = [
        anchor
        for scenario in found.scenarios
        for anchor in (
            scenario.id,
            *(fault.id for fault in scenario.faults),
            *(recovery.id for recovery in scenario.recoveries),
            *(line.id for line in scenario.lines),
        )
    ]
    assert len(anchors) == len(set(anchors)) > 50


def test_repeats_are_one_row(found: Page) -> None:
    assert found.times is not None
    rows = {row.name: row for row in found.times.by_scenario}
    assert rows["kill_in_backward"].count == 4
    assert "kill_in_backward.2" not in rows
    assert [row.name for row in found.times.by_phase] == [
        "detect",
        "fence",
        "regroup",
        "transfer",
        "resume",
        "total",
        "measured",
    ]


def test_a_dot_in_a_name_makes_no_repeat() -> None:
    assert base_name("kill.2", ["kill.1", "kill.2"]) == "kill"
    assert base_name("at.2", ["at.2"]) == "at.2"
    assert base_name("kill.x", ["kill.x", "kill.1"]) == "kill.x"


def test_a_run_without_a_recovery_has_no_times(stored: Stored) -> None:
    report = stored.report.model_copy(update={"scenarios": []})
    assert times_view(report) is None


def test_the_environment_is_flat(found: Page) -> None:
    assert ("packages: numpy", "2") in found.environment
    assert ("command", HOSTILE) in found.environment


def test_the_coverage_names_what_is_missing(found: Page) -> None:
    assert found.coverage.unused == ("net.delay",)
    assert {row.fault for row in found.coverage.by_fault} == {"net.partition", "process.kill", "process.stop"}


def test_leftovers_and_interruption_are_said(stored: Stored) -> None:
    environment = {"left_over": ["namespace n1"], "interrupted": True}
    report = stored.report.model_copy(update={"environment": environment, "exit_code": 3})
    found = page(Stored(report, stored.scenarios))
    assert found.problems == ("left over: namespace n1", "interrupted by the user")
    assert dict(found.figures)["exit code"] == "3: clean-up incomplete"


def test_a_record_without_histories_keeps_its_verdicts() -> None:
    root = Path(__file__).parents[4] / "reports" / "reference" / "nodes"
    report = Report.model_validate_json((root / "report.json").read_bytes())
    found = page(Stored(report, {scenario.name: Scenario() for scenario in report.scenarios}))
    assert all(scenario.timeline is None and scenario.curve is None for scenario in found.scenarios)
    assert any(scenario.recoveries for scenario in found.scenarios)
