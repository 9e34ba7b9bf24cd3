"""Looks before anything is started: everything that can be refused is refused here, in one message each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from chaos.clusters.make import check as check_cluster
from chaos.errors import Refused
from chaos.plan import Plan, canonical
from chaos.suite.resolve import empty_target
from chaos.targets.base import Setting
from chaos.targets.make import make_target
from chaos.targets.recovery import Template

# Torch's data loaders and the runtime's buffers; a full /dev/shm ends a job with a bus error at some later
# time.
SHM_BYTES = 8 * 1024 * 1024


def check(plan: Plan, folder: Path) -> None:
    """Refuse a run that cannot work.

    Raises:
        UserError: a script or command is not there.
        Refused: a target with nothing to run, or a machine that cannot run it.
    """
    seen = set()
    clusters: dict[str, Any] = {}
    for scenario in plan.scenarios:
        why = empty_target(scenario.target)
        if why is not None:
            raise Refused(f"scenario {scenario.name!r}: {why}", "give it something to run")
        key = canonical(scenario.target)
        if key not in seen:
            seen.add(key)
            make_target(Setting(scenario.target, folder), Template({})).check()
        if scenario.target.get("cluster"):
            clusters[canonical(scenario.target["cluster"])] = scenario.target["cluster"]
    for cluster in clusters.values():
        check_cluster(cluster)
    check_shm()


def check_shm(folder: str = "/dev/shm", needed: int = SHM_BYTES) -> None:
    """Refuse a shared memory folder that is missing or full.

    Raises:
        Refused: less than `needed` bytes are free.
    """
    try:
        stat = os.statvfs(folder)
    except OSError as error:
        raise Refused(
            f"{folder}: {error.strerror}", "mount a tmpfs there, for example --shm-size in Docker"
        ) from None
    free = stat.f_bavail * stat.f_frsize
    if free < needed:
        raise Refused(
            f"{folder} is full: {free >> 10} KiB free, a run needs {needed >> 10} KiB",
            "remove what is left there, or make it larger (in Docker: --shm-size 1g)",
        )
