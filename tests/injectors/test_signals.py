from __future__ import annotations

import os
import signal
import subprocess
import sys

from injectors import signals
from injectors.fault import Victim


def test_a_process_is_known_by_pid_and_start(sleeper: Victim) -> None:
    assert signals.is_alive(sleeper.pid, sleeper.start_ticks)
    assert not signals.is_alive(sleeper.pid, sleeper.start_ticks - 1)


def test_a_reused_pid_is_not_signalled(stranger: Victim) -> None:
    assert not signals.send(stranger.pid, stranger.start_ticks, signal.SIGKILL)
    assert signals.state(stranger.pid) in ("S", "R")


def test_a_process_that_is_gone_is_not_signalled(dead: Victim) -> None:
    assert not signals.send(dead.pid, dead.start_ticks, signal.SIGKILL)
    assert signals.start_ticks(dead.pid) is None
    assert signals.state(dead.pid) is None
    assert signals.cpu_ticks(dead.pid) is None
    assert signals.mask_has(dead.pid, "SigCgt", signal.SIGTERM) is None
    assert signals.wait_gone(dead.pid, dead.start_ticks, 0.0)


def test_a_zombie_has_ended(sleeper: Victim) -> None:
    assert not signals.wait_gone(sleeper.pid, sleeper.start_ticks, 0.01)
    assert signals.send(sleeper.pid, sleeper.start_ticks, signal.SIGKILL)
    assert signals.wait_gone(sleeper.pid, sleeper.start_ticks, 5.0)
    assert signals.state(sleeper.pid) == "Z"
    assert not signals.is_alive(sleeper.pid, sleeper.start_ticks)


def test_no_descriptor_is_left_open(sleeper: Victim) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        signals.send(sleeper.pid, sleeper.start_ticks, signal.SIGCONT)
        signals.send(sleeper.pid, sleeper.start_ticks + 1, signal.SIGCONT)
        signals.wait_gone(sleeper.pid, sleeper.start_ticks, 0.0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_handler_shows_in_the_mask(sleeper: Victim) -> None:
    assert signals.mask_has(sleeper.pid, "SigCgt", signal.SIGTERM) is False
    before = signal.signal(signal.SIGUSR2, lambda *_: None)
    try:
        assert signals.mask_has(os.getpid(), "SigCgt", signal.SIGUSR2) is True
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_a_name_with_blanks_and_brackets_does_not_confuse() -> None:
    code = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a) R 1 (b'); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert signals.wait_state(process.pid, "S", 2.0) == "S"
        process.kill()
