"""process.segv, process.abort, process.term: kill with another signal; only what differs is tested."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from injectors import signals
from injectors.fault import Fault, FaultError, Victim
from injectors.process.abort import ProcessAbort
from injectors.process.segv import ProcessSegv
from injectors.process.term import ProcessTerm

Plan = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("fault", "number"),
    [(ProcessSegv(), signal.SIGSEGV), (ProcessAbort(), signal.SIGABRT), (ProcessTerm(), signal.SIGTERM)],
    ids=lambda value: getattr(value, "id", ""),
)
def test_the_process_ends_by_that_signal(fault: Fault, number: signal.Signals) -> None:
    process = subprocess.Popen(["sleep", "60"])
    victim = Victim(pid=process.pid, start_ticks=signals.start_ticks(process.pid) or 0)
    assert fault.inject(victim, None).proven
    assert fault.verify(victim).proven
    assert process.wait(5) == -number
    assert fault.undo_record(victim) is None


@pytest.mark.parametrize("fault", [ProcessSegv(), ProcessAbort(), ProcessTerm()], ids=lambda fault: fault.id)
def test_the_dead_and_strangers_are_not_hit(fault: Fault, dead: Victim, stranger: Victim) -> None:
    assert not fault.inject(dead, None).proven
    assert not fault.inject(stranger, None).proven
    assert signals.state(stranger.pid) in ("S", "R")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "proven"), [("lambda *a: None", True), ("signal.SIG_IGN", False)], ids=["handled", "ignored"]
)
def test_a_handler_that_took_the_signal_is_an_effect_and_ignoring_it_is_not(
    handler: str, proven: bool
) -> None:
    code = f"import signal, time; signal.signal(15, {handler}); print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        victim = Victim(pid=process.pid, start_ticks=signals.start_ticks(process.pid) or 0)
        fault = ProcessTerm(grace_s=0.2)
        assert fault.inject(victim, None).proven
        assert fault.verify(victim).proven is proven
        process.kill()


@pytest.mark.parametrize("value", [-1, 601, "1"])
def test_a_bad_grace_is_refused(value: object) -> None:
    with pytest.raises(FaultError, match="grace_s"):
        ProcessTerm.from_params({"grace_s": value})


@pytest.mark.slow
def test_a_script_that_handles_sigterm_runs_its_handler_while_the_agent_waits(
    rig: Any, planned: Plan
) -> None:
    fault = planned("process.term", 0, {"grace_s": 0.3}, step=1, phase="forward")
    outcome = rig.run("loops.py", "terminated", world=1, faults=[fault])
    assert outcome.codes == [0]
    assert "asked to end" in outcome.output
    assert outcome.verified["f1"].proven
    assert [event["step"] for event in outcome.commits(0)] == [0, 1, 2]
