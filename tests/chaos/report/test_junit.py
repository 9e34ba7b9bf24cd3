from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import xmlschema
from junitparser import Error, Failure, JUnitXml, Skipped

from chaos.report import junit, write_junit
from chaos.report.junit import Inconclusive
from tests.chaos.report.sample import masked, report

SCHEMA = Path(__file__).with_name("junit.xsd")


def written(tmp_path: Path, data: dict[str, object], inconclusive: Inconclusive = "error") -> Path:
    path = tmp_path / "junit.xml"
    write_junit(data, path, inconclusive)
    return path


def test_junit(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    golden("junit.xml", masked(written(tmp_path, report()).read_text()))


def test_a_reader_counts_the_same(tmp_path: Path) -> None:
    (suite,) = JUnitXml.fromfile(str(written(tmp_path, report())))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (6, 2, 2, 0)


def test_seed_plan_and_commands_are_properties() -> None:
    (suite,) = junit(report())
    found = {prop.name: prop.value for prop in suite.properties()}  # type: ignore[no-untyped-call]
    run = {name: value for name, value in found.items() if ":" not in name}
    assert run == {
        "seed": "7",
        "plan_hash": report()["plan_hash"],
        "exit_code": "1",
        "replay": "torch-chaos replay reports/sample/plan.json",
    }
    names = [case.name for case in suite]
    assert list(found)[4:] == [f"{what}:{name}" for name in names for what in ("seed", "replay")]
    assert found["replay:stale_state"] == "torch-chaos replay reports/sample/plan.json --only stale_state"


@pytest.mark.parametrize(("inconclusive", "kind"), [("error", Error), ("fail", Failure), ("skip", Skipped)])
def test_what_ended_as_stated_passes_and_everything_else_is_red_unless_told_otherwise(
    inconclusive: Inconclusive, kind: type
) -> None:
    (suite,) = junit(report(), inconclusive)
    outcomes = {case.name: [type(item) for item in case.result] for case in suite}
    assert outcomes == {
        "kill_in_backward": [],
        "stale_state": [Failure],
        "control_stale_state": [],
        "control_missed": [Failure],
        "never_fires": [kind],
        "raises_at_import": [Error],
    }


@pytest.mark.parametrize("inconclusive", ["error", "fail", "skip"])
def test_it_is_valid_by_the_common_schema(tmp_path: Path, inconclusive: Inconclusive) -> None:
    data = {**report(), "environment": {"started": "2026-03-01T12:30:05+02:00"}}
    path = written(tmp_path, data, inconclusive)
    xmlschema.XMLSchema(SCHEMA).validate(path)
    assert 'timestamp="2026-03-01T10:30:05"' in path.read_text()


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("<testcase ", "<testcas "),
        (' classname="torch-chaos.sample"', ""),
        ('tests="6"', 'tests="six"'),
        ('time="12.346"', 'time="-1"'),
        ("</properties>", "</properties><properties/>"),
        ('<property name="seed"', '<property name="plan_hash"'),
        ("<system-out>", "<system-out/><system-out>"),
    ],
)
def test_the_schema_refuses_what_readers_would(tmp_path: Path, sound: str, broken: str) -> None:
    path = written(tmp_path, report())
    text = path.read_text()
    xmlschema.XMLSchema(SCHEMA).validate(text)
    assert sound in text
    path.write_text(text.replace(sound, broken))
    with pytest.raises((xmlschema.XMLSchemaValidationError, SyntaxError)):
        xmlschema.XMLSchema(SCHEMA).validate(path)
