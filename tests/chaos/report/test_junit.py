from collections.abc import Callable
from pathlib import Path

from junitparser import Error, Failure, JUnitXml

from chaos.report import junit, write_junit
from tests.chaos.report.sample import masked, report


def test_junit(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(report(), path)
    golden("junit.xml", masked(path.read_text()))


def test_a_reader_counts_the_same(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_junit(report(), path)
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.tests, suite.failures, suite.errors) == (6, 2, 2)
    assert {prop.name: prop.value for prop in suite.properties()} == {  # type: ignore[no-untyped-call]
        "seed": "7",
        "plan_hash": report()["plan_hash"],
        "exit_code": "1",
        "replay": "torch-chaos replay reports/sample/plan.json",
    }


def test_what_ended_as_stated_passes_and_everything_else_is_red() -> None:
    (suite,) = junit(report())
    outcomes = {case.name: [type(item) for item in case.result] for case in suite}
    assert outcomes == {
        "kill_in_backward": [],
        "stale_state": [Failure],
        "control_stale_state": [],
        "control_missed": [Failure],
        "never_fires": [Error],
        "raises_at_import": [Error],
    }
