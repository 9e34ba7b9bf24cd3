"""The machine's processes as a table, for `chaos.attach.job`."""

from __future__ import annotations

import os
from collections.abc import Iterable

from chaos.attach.job import VARIABLES, Job, Seen
from chaos.clusters import processes
from injectors import marks


def everyone() -> dict[int, Seen]:
    """Every living process but this one."""
    return _table(processes.pids())


def below(job: Job) -> dict[int, Seen]:
    """The processes of a job's launchers, and of ranks that have none any more."""
    found = {rank.pid for rank in job.ranks.values()}
    for root in job.roots:
        found |= {root.pid, *(process.pid for process in processes.descendants(root.pid))}
    return _table(found)


def _table(pids: Iterable[int]) -> dict[int, Seen]:
    own = os.getpid()
    seen = (_look(pid) for pid in pids if pid != own)
    return {process.pid: process for process in seen if process is not None}


def _look(pid: int) -> Seen | None:
    process = processes.read(pid)
    if process is None or process.ended:
        return None
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    env = marks.environment(pid)
    return Seen(
        pid=pid,
        ppid=process.ppid,
        start_ticks=process.start_ticks,
        argv=tuple(processes.argv(pid)),
        uid=uid,
        net=_network(pid),
        env={name: env[name] for name in VARIABLES if name in env},
        run=_marker(env.get(marks.MARKER, "")),
    )


def _marker(run: str) -> str:
    """A run's marker; that of the run which this tool itself is started in says nothing of the job."""
    return "" if run == os.environ.get(marks.MARKER) else run


def _network(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0
