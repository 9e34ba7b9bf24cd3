"""The stand-in job as a target of the user's own: the whole interface in one file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar, Literal

from chaos import targets


class Running(targets.Running):
    """The stand-in's supervisor; its ranks end with it."""

    def __init__(self, process: subprocess.Popen[bytes], argv: list[str]) -> None:
        self._process, self.argv, self.pid = process, argv, process.pid
        self._pidfd = os.pidfd_open(process.pid)

    @property
    def end_fd(self) -> int:
        return self._pidfd

    def poll(self) -> targets.End | None:
        code = self._process.poll()
        if code is None:
            return None
        return targets.End(code) if code >= 0 else targets.End(None, -code)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class Target(targets.Target):
    """`options`: step_s (seconds per step), flags (of job.py)."""

    step_source: ClassVar[Literal["recovery", "agent"]] = "recovery"
    restart: ClassVar[Literal["in_place", "whole_job"]] = "in_place"

    def files(self) -> list[Path]:
        return [Path(__file__).with_name("job.py")]

    def start(self, launch: targets.Launch) -> targets.Running:
        options = self.spec.get("options") or {}
        argv = [
            sys.executable,
            str(Path(__file__).with_name("job.py")),
            str(self.spec["world"]),
            str(self.spec["steps"]),
            str(options.get("step_s", 0.01)),
            *options.get("flags", []),
        ]
        env = {**launch.env, "RECOVERY_EVENTS": str(launch.events), "JOB_SEED": str(launch.seed)}
        process = subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=launch.stdout,
            stderr=launch.stderr,
            start_new_session=True,
        )
        return Running(process, argv)
