"""The launcher's command line: one clear message for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recovery.launch import main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: script"),
        (["--nproc-per-node", "0", "x.py"], "0 is not a positive number"),
        (["--spares", "-1", "x.py"], "-1 is negative"),
        (["--nproc-per-node", "4", "missing.py"], "no such script: missing.py\n  mend: check the path"),
        (["--start-method", "magic", "x.py"], "invalid choice: 'magic'"),
    ],
)
def test_bad_usage_exits_64(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 64
    assert message in capsys.readouterr().err


def test_help_says_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "3 every holder of the state is gone" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_the_launcher_does_not_pay_for_torch() -> None:
    code = "import sys, recovery.launch, recovery.shell.supervisor; print('torch' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert output.stdout == "False\n"


@pytest.mark.slow
def test_a_script_outside_the_launcher_is_told_how_to_start_it() -> None:
    code = "import recovery; recovery.join()"
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert output.returncode == 1
    assert "recovery.join() needs a supervisor" in output.stderr
    assert "mend: python -m recovery.launch" in output.stderr
