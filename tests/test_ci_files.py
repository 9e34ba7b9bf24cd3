"""action.yml and the files of docs/ci.md, as text: no CI system is here to run them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.cli.ci_files import FILES
from tests.chaos.runs import ROOT, environment

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
BLOCKS = [
    yaml.safe_load(block)
    for block in re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs" / "ci.md").read_text(), flags=re.M | re.S)
]
WRITTEN = [yaml.safe_load(text.format(install="x", suite="y.yaml")) for _, text in FILES.values()]


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ACTION["runs"]["steps"]
    return found


def scripts() -> Iterator[str]:
    yield from (step["run"] for step in steps())
    for data in (*BLOCKS, *WRITTEN):
        for job in data.get("jobs", {}).values():
            yield from (step["run"] for step in job["steps"] if "run" in step)
        for job in data.values():
            if isinstance(job, dict) and "script" in job:
                yield "\n".join([*job["script"], *job.get("after_script", [])])


def test_the_action_is_composite_and_every_step_names_its_shell() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert [step["shell"] for step in steps()] == ["bash"] * len(steps())
    assert all(item["description"] for item in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_every_input_is_used_and_none_is_pasted_into_a_script() -> None:
    used = set(re.findall(r"\binputs\.([a-z-]+)", json.dumps(ACTION)))
    assert used == set(ACTION["inputs"])
    for step in steps():
        assert "${{" not in step["run"]
        given = set(step.get("env", {})) | {"GITHUB_OUTPUT", "GITHUB_ACTION_PATH"}
        assert set(re.findall(r"\$\{?([A-Z][A-Z_]+)", step["run"])) <= given


@pytest.mark.slow
def test_every_option_in_the_scripts_exists() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "run", "--help"],
        env=environment(COLUMNS="200"), capture_output=True, text=True, check=True,
    )  # fmt: skip
    known = set(re.findall(r"--[a-z-]+", done.stdout))
    lines = [line for script in scripts() for line in script.splitlines()]
    said = {
        option
        for line in lines
        if "torch-chaos run" in line or "options" in line
        for option in re.findall(r"--[a-z-]+", line)
    }
    assert said
    assert said <= known


def test_documented_workflows_have_what_they_need() -> None:
    github, gitlab = BLOCKS[:2]
    (job,) = github["jobs"].values()
    (used,) = [step for step in job["steps"] if "torch-chaos@" in step.get("uses", "")]
    assert set(used["with"]) <= set(ACTION["inputs"])
    assert {name for name, item in ACTION["inputs"].items() if item.get("required")} <= set(used["with"])
    artifacts = gitlab["chaos"]["artifacts"]
    assert any(artifacts["reports"]["junit"] in line for line in gitlab["chaos"]["script"])
    assert artifacts["when"] == "always"


@pytest.mark.slow
@pytest.mark.parametrize("script", list(scripts()))
def test_shell_steps_are_clean(script: str, tmp_path: Path) -> None:
    beside = str(Path(sys.executable).parent)
    shellcheck = shutil.which("shellcheck", path=beside) or shutil.which("shellcheck")
    if shellcheck is None:
        pytest.skip("shellcheck is not here")
    path = tmp_path / "step.sh"
    path.write_text(f"#!/usr/bin/env bash\nset -eo pipefail\n{script}\n")
    done = subprocess.run([shellcheck, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
