from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from injectors import boot
from injectors.fault import FaultError


def config(**changes: Any) -> dict[str, Any]:
    fault = {"id": "f1", "name": "process.kill", "where": {"rank": 0}, "when": {"step": 1}, "params": {}}
    return {"protocol": 1, "run": "r", "socket": "/s", "events": "/e", "faults": [fault], **changes}


def fault(**changes: Any) -> list[dict[str, Any]]:
    return [{**config()["faults"][0], **changes}]


def test_the_boot_folder_comes_first_and_once() -> None:
    env = boot.environment("/a.json", {"PYTHONPATH": f"/x:{boot.BOOT_FOLDER}::/y", "HOME": "/h"})
    assert env["PYTHONPATH"] == f"{boot.BOOT_FOLDER}:/x:/y"
    assert env["TORCH_CHAOS_AGENT"] == "/a.json"
    assert env["HOME"] == "/h"


def test_the_file_is_private_and_has_every_parameter(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    boot.write_config(path, config(faults=fault(name="numeric.bitflip")))
    written = json.loads(path.read_text())
    assert written["faults"][0]["params"] == {"tensor": "param", "element": 0.5, "bit": 20}
    assert written["faults"][0]["inside"] is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["agent.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": 2}, "protocol 2, this agent speaks 1"),
        ({"socket": ""}, "socket must be text"),
        ({"step_source": "stdout"}, "neither agent nor recovery"),
        ({"step_rule": {"rule": "optimiser"}}, "step rule 'optimiser' is unknown"),
        ({"step_rule": {"rule": "every_n", "n": 0}}, "n must be a whole number from 1 on"),
        ({"step_rule": {"rule": "optimizer", "n": 2}}, "step rule optimizer: unknown n"),
        ({"faults": fault() + fault()}, "two faults have the id 'f1'"),
        ({"faults": fault(name="process.kil")}, "did you mean 'process.kill'"),
        ({"faults": fault(params={"signal": 9})}, "unknown parameter 'signal'"),
        ({"faults": fault(inside=True)}, "inside must be False"),
        ({"faults": fault(where={"rank": "random"})}, "is no address"),
        ({"faults": fault(when={"phase": "fwd"})}, "process.kill: when: phase 'fwd' is not known"),
    ],
)
def test_what_the_agent_would_misread_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FaultError) as error:
        boot.write_config(tmp_path / "agent.json", config(**changes))
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())


def python(code: str, env: dict[str, str], *flags: str) -> str:
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], env=env, cwd="/", capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.slow
def test_a_target_gets_one_private_module_and_its_own_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.user_was_here = __file__\n")
    (tmp_path / "injectors.py").write_text("mine = True\n")
    env = boot.environment("/nonexistent", {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]})
    code = (
        "import sys, sitecustomize, injectors\n"
        "assert user_was_here == sitecustomize.__file__ and injectors.mine\n"
        "ours = sorted(m for m in sys.modules if 'chaos' in m and not m.startswith('__editable__'))\n"
        "assert all(m.split('.')[0] == '_torch_chaos_agent' for m in ours), ours\n"
        "import threading; assert threading.active_count() == 1\n"
        "print(len(ours) > 3)"
    )
    assert python(code, env) == "True"


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_isolated_pythons_have_no_agent(flag: str) -> None:
    env = boot.environment("/nonexistent", {"PATH": os.environ["PATH"]})
    assert python("import sys; print('_torch_chaos_agent' in sys.modules)", env, flag) == "False"
