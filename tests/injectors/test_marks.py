"""The run's marker is read from processes that have only just been started."""

from __future__ import annotations

import os
import subprocess

from injectors import marks


def test_a_process_in_the_middle_of_its_exec_is_already_of_its_run() -> None:
    # Popen returns when the exec has begun; the kernel writes the environment only after that.
    for _ in range(100):
        process = subprocess.Popen(["sleep", "60"], env={**os.environ, marks.MARKER: "run-1"})
        assert marks.run_of(process.pid) == "run-1"
        process.kill()
        process.wait()


def test_one_without_an_environment_is_not_waited_for() -> None:
    process = subprocess.Popen(["sleep", "60"], env={})
    assert marks.run_of(process.pid) == ""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert marks.environment(process.pid) == {}
    process.wait()
