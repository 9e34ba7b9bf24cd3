"""The command line: fast to start, exact about exit codes, and drawn from the catalogues."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from chaos.cli import app
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import ROOT, chaos, environment

pytestmark = pytest.mark.slow


def test_no_verb_that_only_looks_imports_torch() -> None:
    code = (
        "import sys\n"
        "from chaos.cli import app\n"
        "for line in ('--help', 'list', 'describe process.kill', 'plan smoke', 'validate smoke'):\n"
        "    argv = line.split()\n"
        "    assert app._main(argv) == 0, argv\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([], 64, "Usage:"),
        (["rum"], 64, "No such command"),
        (["run"], 64, "Missing argument"),
        (["run", "smoke", "--seed", "x"], 64, "--seed"),
        (["run", "smok"], 64, "did you mean 'smoke'?"),
        (["run", "smoke", "--only", "nothing_like_it"], 64, "no scenario matches"),
        (["run", "nowhere/x.yaml"], 64, "there is no file"),
        (["replay", "nowhere.json"], 64, "cannot be read"),
        (["report", "."], 64, "no plan.json in it"),
        (["describe", "process.kil"], 64, "did you mean 'process.kill'?"),
        (["rollback", "nowhere"], 64, "there is no folder"),
        (["--version"], 0, "torch-chaos 0."),
    ],
)
def test_exit_codes_and_words(args: list[str], code: int, said: str) -> None:
    done = chaos(*args)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_list_and_describe_come_from_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    listed = chaos("list").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(CATALOGUE)
    for name, fault in CATALOGUE.items():
        # In this process: half a hundred commands would take a minute.
        assert app._main(["describe", name]) == 0
        said = capsys.readouterr().out
        assert fault.summary() in said
        assert all(parameter.name in said for parameter in fault.parameters())
        assert all(way.name in said for way in fault.mechanisms)
    shown = json.loads(chaos("list", "--json").stdout)
    assert [card["id"] for card in shown] == list(CATALOGUE)
    assert json.loads(chaos("describe", "process.stop", "--json").stdout)["has_undo"] is True
    assert "nothing_left_over" in chaos("list", "invariants").stdout
    assert "smoke" in chaos("list", "suites").stdout


def test_equal_seeds_give_byte_identical_plans() -> None:
    first = chaos("plan", "smoke", "--seed", 3, "--format", "json").stdout
    assert first == chaos("plan", "smoke", "--seed", 3, "--format", "json", cwd=Path("/")).stdout
    assert first != chaos("plan", "smoke", "--seed", 4, "--format", "json").stdout
    assert json.loads(first)["seed"] == 3


def test_a_plan_says_what_a_step_is_in_a_foreign_script() -> None:
    assert "a step is one step of the first optimizer that steps" in chaos("plan", "torchrun").stdout


def test_validate_reports_every_file_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("suite: s\nscenarios: []\nextra: 1\n")
    done = chaos("validate", tmp_path / "a.yaml", "smoke", tmp_path / "b.yaml")
    assert done.returncode == 64
    assert "smoke.yaml: 15 scenarios, no problem" in done.stdout
    assert done.stderr.count("unknown key 'extra'") == 2
    assert "4 problems" in done.stderr


@pytest.mark.parametrize("what", ["suite", "report"])
def test_schemas_are_schemas(what: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(chaos("schema", what).stdout))


def test_doctor_finds_what_the_tests_need() -> None:
    done = chaos("doctor")
    assert done.returncode == 0, done.stdout
    for name in ("torch", "gloo", "namespaces", "pidfd_getfd", "/dev/shm", "cgroup", "gpu"):
        assert name in done.stdout


def test_init_writes_a_suite_that_is_valid(tmp_path: Path) -> None:
    plain, ours = tmp_path / "train.py", tmp_path / "ours.py"
    plain.write_text("print('step 0')\n")
    ours.write_text("import recovery\n")
    for script in (plain, ours):
        out = tmp_path / f"{script.stem}.yaml"
        assert chaos("init", script, "--out", out, "--nproc-per-node", 2).returncode == 0
        done = chaos("validate", out)
        assert done.returncode == 0, done.stderr
    again = chaos("init", plain, "--out", tmp_path / "train.yaml")
    assert again.returncode == 64
    assert "is already there" in again.stderr


def test_rollback_of_nothing_is_clean(tmp_path: Path) -> None:
    done = chaos("rollback", tmp_path)
    assert done.returncode == 0
    assert "clean" in done.stdout
