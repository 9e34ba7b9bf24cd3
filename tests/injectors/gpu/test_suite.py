"""suites/gpu.yaml, as far as a machine without a GPU can run it: by the command, against the stand-ins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.chaos.runs import Done, environment
from tests.injectors.gpu import stand_in

SUITE = Path(__file__).parents[3] / "suites" / "gpu.yaml"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def run(tmp_path: Path, names: list[str], **env: str) -> Done:
    """Run some scenarios of the shipped suite."""
    yaml = YAML()
    suite = yaml.load(SUITE)
    suite["scenarios"] = [scenario for scenario in suite["scenarios"] if scenario["name"] in names]
    assert len(suite["scenarios"]) == len(names)
    path, folder = tmp_path / "gpu.yaml", tmp_path / "report"
    with path.open("w") as file:
        yaml.dump(suite, file)
    command = [sys.executable, "-m", "chaos", "run", str(path), "--report-dir", str(folder)]
    done = subprocess.run(
        command, env=environment(**env), capture_output=True, text=True, timeout=380, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr, folder)


def stages(done: Done, scenario: str) -> dict[str, dict[str, Any]]:
    """The events of a scenario's fault, by what they say."""
    events = [event for event in done.history(scenario) if event["event"].startswith("fault.")]
    return {event["event"].removeprefix("fault."): event for event in events}


def test_settings_are_set_verified_restored_and_the_xid_says_simulated(gpu: Any, tmp_path: Path) -> None:
    before = gpu.snapshot()
    names = ["clock_lock", "power_cap", "xid_sim", "no_such_device_to_lock"]
    done = run(tmp_path, names, **stand_in.environment(gpu))
    # The negative control is inconclusive, as it expects of itself.
    assert {s["name"]: s["verdict"] for s in done.report["scenarios"]} == {
        "clock_lock": "PASS",
        "power_cap": "PASS",
        "xid_sim": "PASS",
        "no_such_device_to_lock": "INCONCLUSIVE",
    }, done.out + done.err
    for name in ("clock_lock", "power_cap"):
        seen = stages(done, name)
        assert {"armed", "reached", "fired", "verified", "undone", "undo_verified"} <= seen.keys()
        for stage in ("fired", "verified", "undo_verified"):
            assert seen[stage]["evidence"]["what"].startswith("STAND-IN NVML: "), seen[stage]
    assert stages(done, "xid_sim")["verified"]["evidence"]["what"].startswith("SIMULATED: SIMULATED Xid 79")
    assert "there is no device '63'" in str(stages(done, "no_such_device_to_lock")["failed"])
    assert gpu.snapshot() == before


def test_a_hog_beside_the_job_is_gone_with_its_scenario(gpu: Any, tmp_path: Path) -> None:
    done = run(tmp_path, ["mem_hog", "no_such_device_to_fill"], **stand_in.environment(gpu))
    assert {s["name"]: s["verdict"] for s in done.report["scenarios"]} == {
        "mem_hog": "PASS",
        "no_such_device_to_fill": "INCONCLUSIVE",
    }, done.out + done.err
    seen = stages(done, "mem_hog")
    assert "torch STAND-IN" in seen["verified"]["evidence"]["what"]
    assert not Path("/proc", str(seen["fired"]["evidence"]["data"]["pid"])).exists()


def test_without_any_library_it_is_refused_and_inconclusive(tmp_path: Path) -> None:
    done = run(tmp_path, ["power_cap"], TORCH_CHAOS_NVML=str(tmp_path / "none.so"))
    assert done.report["scenarios"][0]["verdict"] == "INCONCLUSIVE"
    assert "none.so" in str(stages(done, "power_cap")["failed"])
