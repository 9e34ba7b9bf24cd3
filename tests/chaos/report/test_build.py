import hashlib
import json

import jsonschema
import pytest
from pydantic import ValidationError

from chaos.report import Report, build, schema
from chaos.report.build import hash_of, plain
from tests.chaos.report.sample import report


def test_the_report_has_the_keys_that_the_readme_promises() -> None:
    data = report()
    assert {
        "suite",
        "seed",
        "plan_hash",
        "exit_code",
        "wall_s",
        "replay",
        "scenarios",
        "environment",
        "not_fixed_by_seed",
    } <= set(data)
    scenario = json.loads(json.dumps(data))["scenarios"][0]
    assert {"name", "verdict", "expected", "reason", "seed", "faults", "recoveries", "invariants"} <= set(
        scenario
    )
    assert {"id", "where", "when", "fired", "verified", "undone", "undo_verified", "evidence"} <= set(
        scenario["faults"][0]
    )
    assert {
        "cause",
        "rank",
        "generation",
        "detect_s",
        "fence_s",
        "regroup_s",
        "transfer_s",
        "resume_s",
        "total_s",
        "bytes",
    } <= set(scenario["recoveries"][0])
    assert {"name", "verdict", "detail"} <= set(scenario["invariants"][0])


def test_the_published_schema_accepts_it_and_refuses_a_typo() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    data = report()
    jsonschema.validate(data, schema())
    with pytest.raises(jsonschema.ValidationError, match="exitcode"):
        jsonschema.validate({**data, "exitcode": 0}, schema())


def test_the_model_refuses_what_the_schema_refuses() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Report.model_validate({**report(), "exitcode": 0})


def test_the_summary_tells_single_faults_from_those_answered_together() -> None:
    summary = Report.model_validate(report()).summary
    assert summary.scenarios == {"ERROR": 1, "INCONCLUSIVE": 1, "PASS": 2, "VIOLATED": 2}
    assert summary.unexpected == ["stale_state", "control_missed", "never_fires", "raises_at_import"]
    assert list(summary.recovery) == ["process.kill", "process.kill+process.kill"]
    single = summary.recovery["process.kill"]
    assert single.count == 4
    assert 0.17 < single.median_s <= single.worst_s < 0.18
    assert summary.step_s is not None
    assert 0.02 <= summary.step_s < 0.022


def test_every_scenario_has_its_own_replay_command() -> None:
    scenarios = Report.model_validate(report()).scenarios
    assert scenarios[1].replay == "torch-chaos replay reports/sample/plan.json --only stale_state"


def test_the_plan_hash_is_that_of_canonical_json() -> None:
    plan = {"suite": "s", "seed": 1, "name": "ä"}
    canonical = '{"name":"ä","seed":1,"suite":"s"}'
    assert hash_of(plan) == hashlib.sha256(canonical.encode()).hexdigest()
    assert report()["plan_hash"] == hash_of({"suite": "sample", "seed": 7, "scenarios": []})


def test_an_empty_run_can_be_reported() -> None:
    data = build({"suite": "s"}, [], {}, exit_code=70, wall_s=0.0, replay="r", plan_hash="abc")
    assert data["scenarios"] == []
    assert data["plan_hash"] == "abc"


def test_anything_becomes_plain_data() -> None:
    assert plain({1: (2, {3})}) == {"1": [2, [3]]}
    assert plain(ValueError("x")) == "x"
