from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from injectors import signals, undo
from injectors.fault import UndoRecord, Victim


def record(victim: Victim, kind: str = undo.SIGNAL_CONT) -> dict[str, object]:
    return UndoRecord(kind, victim.pid, victim.start_ticks, "f1").as_dict()


def test_a_stopped_process_goes_on_and_a_second_time_does_no_harm(sleeper: Victim) -> None:
    signals.send(sleeper.pid, sleeper.start_ticks, signal.SIGSTOP)
    assert signals.wait_state(sleeper.pid, "T", 2.0) == "T"
    for _ in range(2):
        assert undo.carry_out(record(sleeper))["done"]
        assert signals.wait_state(sleeper.pid, "S", 2.0) == "S"


def test_a_process_that_is_gone_needs_no_undo(dead: Victim) -> None:
    for kind in (undo.SIGNAL_CONT, undo.AGENT_RELEASE):
        assert undo.carry_out(record(dead, kind)) == {
            "done": True,
            "kind": kind,
            "pid": dead.pid,
            "detail": "the process is gone",
        }


def test_a_stranger_with_the_same_pid_is_left_alone(stranger: Victim, sleeper: Victim) -> None:
    signals.send(sleeper.pid, sleeper.start_ticks, signal.SIGSTOP)
    assert signals.wait_state(sleeper.pid, "T", 2.0) == "T"
    assert undo.carry_out(record(stranger))["done"]
    assert signals.state(sleeper.pid) == "T"


def test_an_unknown_kind_raises(sleeper: Victim) -> None:
    with pytest.raises(ValueError, match=r"unknown undo record kind 'net\.heal'"):
        undo.carry_out(record(sleeper, "net.heal"))


def test_a_record_survives_json(sleeper: Victim) -> None:
    made = UndoRecord(undo.SIGNAL_CONT, sleeper.pid, sleeper.start_ticks, "f1")
    assert UndoRecord.from_dict(json.loads(json.dumps(made.as_dict()))) == made


def test_it_needs_the_standard_library_only(sleeper: Victim) -> None:
    # -S and an empty path but ours: what the reaper relies on when everything else is gone.
    root = Path(undo.__file__).parent.parent
    code = (
        f"import sys, json; sys.path.insert(0, {str(root)!r})\n"
        "from injectors import undo\n"
        "print(undo.carry_out(json.load(sys.stdin))['done'])\n"
        "assert not any(name.startswith(('torch', 'xxhash', 'numpy')) for name in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=json.dumps(record(sleeper)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True\n", done.stderr
