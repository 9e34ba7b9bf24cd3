"""The store of an unchanged torchrun job: who hosts it in each of torchrun's ways, and what a replay does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.clusters import processes
from injectors import boot
from injectors.marks import MARKER
from injectors.store.host import StoreHost, daemon_thread, find

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
RUN = f"test-torchrun-{os.getpid()}"
JOB = Path(__file__).parent.parent / "jobs" / "ddp.py"
Plan = Callable[..., dict[str, Any]]


def start(rig: Any, *flags: str, **env: str) -> tuple[int, subprocess.CompletedProcess[str]]:
    """Run torchrun to its end; returns the pid of its agent."""
    given = {**os.environ, "OMP_NUM_THREADS": "1", MARKER: RUN, **env}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *flags, str(JOB), "6"]
    with subprocess.Popen(
        command,
        env=boot.environment(rig.folder / "agent.json", given),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=150)
        finally:
            end_the_job()
    return process.pid, subprocess.CompletedProcess(command, process.returncode, output)


def end_the_job() -> None:
    """Kill what is left of the job, torchrun and ranks alike."""
    assert processes.kill_marked(RUN, 10.0) == []


@pytest.mark.parametrize(
    ("flags", "env", "by_rank"),
    [
        (("--standalone",), {}, None),
        (("--standalone",), {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}, 0),
        (("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"), {}, None),
        (("--master-port", "0"), {}, None),
    ],
    ids=["standalone", "not shared", "c10d", "static"],
)
def test_the_host_is_found(
    rig: Any, planned: Plan, flags: tuple[str, ...], env: dict[str, str], by_rank: int | None
) -> None:
    found: dict[int, StoreHost] = {}
    threads: list[int | None] = []
    ranks: dict[int, int] = {}

    def look(reached: Any) -> str:
        host = find(reached.victim())
        found[reached.rank], ranks[reached.rank] = host, reached.pid
        threads.append(daemon_thread(host))
        return "skip"

    rig.on_hit = look
    rig.configure([planned("process.kill", rank, step=2, phase="forward") for rank in (0, 1)])
    if flags[0] == "--master-port":
        flags = ("--master-port", str(free_port()))
    agent, done = start(rig, *flags, **env)
    rig.finish()
    assert done.returncode == 0, done.stdout
    # Both ranks lead to the same process: torchrun's own, or the rank that hosts.
    wanted = agent if by_rank is None else ranks[by_rank]
    assert {host.pid for host in found.values()} == {wanted}
    assert sorted(found) == [0, 1]
    assert all(threads)


def test_the_role_is_a_rank_only_where_a_rank_hosts_the_store(rig: Any, planned: Plan) -> None:
    fault = {"name": "process.kill", "where": {"role": "store_host"}, "when": {"step": 2, "phase": "forward"}}
    store = {"name": "store.stop", "where": {"role": "store_host"}, "when": {"step": 3}, "params": {}}
    rig.on_hit = lambda reached: "skip"
    rig.configure([fault, store])
    start(rig, "--standalone")
    reached = rig.finish().reached
    assert {one.fields["store_host"] for one in reached if one.fault == "f1"} == {None}
    # A fault of the store finds the host itself, so any rank will do.
    assert all(one.fields["store_host"] == one.rank for one in reached if one.fault == "f2")


@pytest.mark.parametrize("shared", ["0", "1"])
def test_keys_of_the_attempt_before_are_replayed(rig: Any, planned: Plan, shared: str) -> None:
    """The second attempt has a store of its own, or shares the first one's, which has them by itself."""
    kill = planned("process.kill", 1, step=3, phase="backward")
    stale = planned("store.stale_key", 0, {"key": "default_pg/*"}, event="recovery.regroup")
    rig.configure([kill, stale])
    # The proof is all that is asked. What the job makes of a dead rank's address depends on who reads first;
    # a rank that connects to it waits for gloo's 30 minutes.
    rig.on_fired = lambda reached, _: end_the_job() if reached.fault == "f2" else None
    disable = "0" if shared == "1" else "1"
    start(rig, "--standalone", "--max-restarts", "1", TORCH_DISABLE_SHARE_RDZV_TCP_STORE=disable)
    outcome = rig.finish()
    fired = outcome.fired["f2"]
    at = next(one for one in outcome.reached if one.fault == "f2")
    assert (at.event, at.generation, at.rank) == ("recovery.regroup", 2, 0)
    assert fired.data["from_generation"] == 1
    changed = {entry["key"]: entry for entry in fired.data["changed"]}
    # The other rank may already have set its own address; that of the rank which waits here is not set yet.
    own = "default_pg/0//cpu//0/0"
    if shared == "0":
        assert fired.proven, fired.what
        assert changed[own]["before"] is None
        assert changed[own]["after"] == changed[own]["replayed"]
        assert own in fired.data["stale"]
    else:
        # There the stale keys are torchrun's own doing: the attempt reads them without our help.
        assert own not in changed


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
