"""data.*: the faults of a loader, on a loop that uses torch's DataLoader and knows nothing of faults."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from injectors import signals
from injectors.data.bad_batch import DataBadBatch
from injectors.data.slow import DataSlow
from injectors.data.worker_kill import DataWorkerKill, loader_workers
from injectors.fault import FaultError, Victim

Plan = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (DataSlow, {"duration_s": 0}),
        (DataSlow, {"duration_s": None}),
        (DataBadBatch, {"how": "late"}),
        (DataWorkerKill, {"worker": -1}),
        (DataWorkerKill, {"worker": 0.5}),
    ],
)
def test_bad_parameters_are_refused(kind: Any, params: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match=next(iter(params))):
        kind.from_params(params)


def test_a_child_that_is_no_loader_worker_is_not_killed(dead: Victim, sleeper: Victim) -> None:
    """Negative control, and who is never hit: a child of the rank that is not torch's."""
    script = "import subprocess, sys\nsubprocess.run(['sh', '-c', 'echo; exec sleep 60'])\n"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    try:
        assert parent.stdout is not None
        parent.stdout.readline()
        ticks = signals.start_ticks(parent.pid)
        assert ticks is not None
        rank = Victim(pid=parent.pid, start_ticks=ticks, rank=0, fault="f1")
        assert loader_workers(rank.pid) == []
        for victim in (rank, dead):
            fired = DataWorkerKill().inject(victim, None)
            assert not fired.proven
            assert f"(pid {victim.pid}) has 0 loader workers" in fired.what
            assert not DataWorkerKill().verify(victim, fired).proven
        (child,) = subprocess.run(
            ["ps", "--ppid", str(parent.pid), "-o", "pid="], capture_output=True, text=True, check=True
        ).stdout.split()
    finally:
        signals.send(int(child), signals.start_ticks(int(child)) or 0, 9)
        parent.communicate()


def test_undo_of_a_slow_batch_after_the_victim_died(dead: Victim) -> None:
    fault = DataSlow()
    record = fault.undo_record(dead)
    for _ in range(2):
        assert fault.undo(record).proven
    assert fault.verify_undone(record).proven


@pytest.mark.slow
class TestInALoop:
    def test_one_worker_of_one_rank_is_killed_and_the_loader_notices(self, rig: Any, planned: Plan) -> None:
        seen: list[tuple[list[int], list[int]]] = []
        rig.on_hit = lambda reached: seen.append(
            ([pid for pid, _ in loader_workers(reached.pid)], [pid for pid, _ in loader_workers(rig.pids[0])])
        )
        fault = planned("data.worker_kill", 1, {"worker": 1}, step=3, phase="forward")
        outcome = rig.run("loader.py", 2000, 2, faults=[fault])
        workers, others = seen[0]
        assert len(workers) == len(others) == 2
        assert not set(workers) & set(others)
        assert outcome.fired["f1"].data["pid"] == workers[1]
        assert outcome.verified["f1"].proven
        assert outcome.codes == [0, 1], outcome.output[-2000:]
        assert f"DataLoader worker (pid {workers[1]}) is killed by signal: Killed" in outcome.output

    def test_a_loader_without_workers_has_none_to_kill(self, rig: Any, planned: Plan) -> None:
        outcome = rig.run("loader.py", 3, 0, faults=[planned("data.worker_kill", 0, step=1)])
        assert not outcome.fired["f1"].proven
        assert "has 0 loader workers, so no number 0" in outcome.fired["f1"].what
        assert outcome.codes == [0, 0]

    @pytest.mark.parametrize("workers", [0, 2])
    def test_one_batch_is_late(self, rig: Any, planned: Plan, workers: int) -> None:
        fault = planned("data.slow", 1, {"duration_s": 0.3}, step=2)
        outcome = rig.run("loader.py", 4, workers, faults=[fault])
        assert outcome.codes == [0, 0], outcome.output
        assert f"from a loader with {workers} workers" in outcome.fired["f1"].what
        assert "blocked in recvfrom on the agent's line" in outcome.verified["f1"].what
        ended = outcome.report("undone", "f1").evidence.data
        assert (ended["reason"], outcome.reached[0].step, outcome.reached[0].rank) == ("elapsed", 2, 1)
        assert ended["held_s"] >= 0.3

    def test_a_late_batch_comes_at_once_when_undone(self, rig: Any, planned: Plan) -> None:
        def undo(reached: Any, rig: Any) -> None:
            fault, record = rig.fault("f1"), rig.outcome.records["f1"]
            assert not fault.verify_undone(record).proven
            assert fault.undo(record, rig.server.send_undo).proven
            assert fault.verify_undone(record).proven

        rig.on_fired = undo
        outcome = rig.run("loader.py", 4, 0, faults=[planned("data.slow", 0, {"duration_s": 3000}, step=2)])
        assert outcome.codes == [0, 0], outcome.output
        assert outcome.report("undone", "f1").evidence.data["reason"] == "undo"

    @pytest.mark.parametrize(
        ("how", "kind", "what", "code"),
        [
            ("nan", "pair", "the first sample of float32[2, 4] is nan", 0),
            ("inf", "dict", "the first sample of float32[2, 4] is inf", 0),
            ("out_of_range", "pair", "the first element of int64[2] is 2147483647", 1),
            ("out_of_range", "dict", "the first element of int64[2] is 2147483647", 1),
            ("out_of_range", "image", "the first element of float32[2, 4] is 1e+30", 0),
            ("empty", "pair", "the batch has no sample", 0),
        ],
    )
    def test_one_batch_is_bad_and_the_next_is_sound(
        self, rig: Any, planned: Plan, how: str, kind: str, what: str, code: int
    ) -> None:
        outcome = rig.run(
            "loader.py", 4, 1, kind, faults=[planned("data.bad_batch", 1, {"how": how}, step=2)]
        )
        evidence = outcome.fired["f1"]
        assert evidence.proven
        assert evidence.what == what
        assert evidence.data["before"] != evidence.data["after"]
        assert outcome.codes == [0, code], outcome.output
        lines = [line for line in outcome.output.splitlines() if line.startswith("rank 1")]
        bad = {"nan": "nan", "inf": "inf", "empty": "None"}.get(how, "1.0000000150474662e+30")
        if how != "out_of_range" or kind == "image":
            assert lines[2].endswith(bad)
            assert lines[3] == "rank 1 step 3 batch 2 6.0"
        else:
            assert "came out of step 2: IndexError" in lines[-1]
        # The other rank has the batch as it was.
        assert "rank 0 step 2 batch 2 5.0" in outcome.output

    def test_a_batch_that_has_nothing_to_spoil_is_reported(self, rig: Any, planned: Plan) -> None:
        faults = [
            planned("data.bad_batch", 0, {"how": "nan"}, step=1),
            planned("data.bad_batch", 1, {"how": "empty"}, step=1),
        ]
        outcome = rig.run("loader.py", 3, 0, "text", faults=faults)
        assert outcome.codes == [0, 0]
        for number, name in (("f1", "floating-point tensor"), ("f2", "tensor with samples")):
            assert not outcome.fired[number].proven
            assert outcome.fired[number].what == f"this batch has no {name}: list"

    def test_a_script_without_a_loader_is_never_reached(self, rig: Any, planned: Plan) -> None:
        """Negative control: nothing asks for a batch here."""
        faults = [planned("data.slow", 0, step=1), planned("data.bad_batch", 1, step=1)]
        outcome = rig.run("ddp.py", 3, faults=faults)
        assert outcome.codes == [0, 0]
        assert outcome.reached == []
