"""Specs for `ai-cluster-chaos-fidelity`: its own linter accepts all, and what does not map is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.export.fidelity import export
from chaos.export.techniques import TECHNIQUES, UNMAPPED
from chaos.suite import load, shipped
from chaos.suite.load import load_text
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import chaos

ONE = """\
suite: one
defaults: {{target: {{kind: recovery, workload: tiny_gpt, world: 4, steps: 20}}}}
scenarios:
  - name: it
{}
"""
KILL = "    faults: [{fault: process.kill, where: {rank: 1}, when: {step: 4}}]"
BOTH = """\
    faults:
      - {fault: process.kill, where: {rank: 1}, when: {step: 4}}
      - {fault: process.stop, where: {rank: 1}, when: {step: 9}}
"""


def exported(text: str) -> object:
    suite = load_text(ONE.format(text), "one.yaml", CATALOGUE).suite
    found = export("one", suite.scenarios, CATALOGUE, "me")
    return found.specs.get("it") or found.left_out["it"]


def test_every_fault_is_mapped_or_has_a_reason() -> None:
    assert TECHNIQUES.keys() & UNMAPPED.keys() == set()
    assert set(CATALOGUE) - (TECHNIQUES.keys() | UNMAPPED.keys()) == set()


def test_a_spec_says_whose_experiment_it_is_and_how_to_repeat_it() -> None:
    spec = exported("    faults: [{fault: process.stop, where: {rank: 1}, when: {step: 4}, for: 2s}]")
    assert isinstance(spec, dict)
    assert spec["owner"] == "me"
    assert spec["injection"]["tool"] == "torch-chaos run one --only it"
    assert spec["injection"]["detail"] == "process.stop on rank 1 at step 4, for 2s"
    assert "by its reaper" in spec["undo"]


def test_what_only_resembles_a_technique_says_in_what_it_differs() -> None:
    spec = exported("    faults: [{fault: process.abort, where: {rank: 1}, when: {step: 4}}]")
    assert isinstance(spec, dict)
    assert spec["notes"] == "process.abort resembles this technique: another signal"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("    faults: []", "it injects no fault"),
        (
            KILL + "\n    expect: INCONCLUSIVE",
            "it expects INCONCLUSIVE",
        ),
        (
            BOTH,
            "its faults use several techniques, and a spec has one: cpu-sleep, process-kill",
        ),
        (
            "    faults: [{fault: numeric.nan, where: {rank: 1}, when: {step: 4, phase: optimizer}}]",
            "numeric.nan: silent data corruption is outside the format",
        ),
    ],
)
def test_what_has_no_counterpart_is_left_out_with_the_reason(text: str, why: str) -> None:
    reason = exported(text)
    assert isinstance(reason, str)
    assert reason.startswith(why)


def test_every_scenario_is_written_or_has_a_reason() -> None:
    for name in shipped():
        scenarios = load(name, CATALOGUE).suite.scenarios
        found = export(name, scenarios, CATALOGUE, "me")
        assert found.specs.keys() | found.left_out.keys() == {scenario.name for scenario in scenarios}
        assert found.specs.keys() & found.left_out.keys() == set()


def test_the_packages_own_linter_accepts_all_that_we_write(
    require: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require("fidelity")
    from catalog import validate

    assert chaos("export", "fidelity", "--out", tmp_path, "--owner", "me").returncode == 0
    written = list(tmp_path.glob("*.yaml"))
    code = validate.main(["chaos-fidelity", str(tmp_path)])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.count("ok  ") == len(written) > 40


def test_a_mapping_to_the_wrong_layer_would_be_refused(require: Callable[[str], None]) -> None:
    require("fidelity")
    from catalog import validate

    spec = exported(KILL)
    assert isinstance(spec, dict)
    assert validate.validate_spec(spec, "it") == []
    wrong = {**spec, "injection": {**spec["injection"], "technique": "networkchaos-overlay"}}
    assert "FIDELITY" in validate.validate_spec(wrong, "it")[0]
