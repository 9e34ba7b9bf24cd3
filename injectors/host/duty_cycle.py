"""The helper that stops and continues a process in turn. Run by path, as a program of its own:

    python -I -S duty_cycle.py TAG PID START_TICKS RUN_S STOP_S LIMIT_S

It ends when its standard input ends (the tool is gone, or has undone the fault), at SIGTERM, when the process
is gone, or at the limit; however it ends, the process runs afterwards. TAG stands on its command line so that
the undo finds it when nothing else of the tool is left. Standard library only, and no import of ours.
"""

import os
import select
import signal
import sys
import time


def main() -> None:
    """See the module's docstring."""
    _, pid, ticks, run_s, stop_s, limit_s = sys.argv[1:7]
    signal.signal(signal.SIGTERM, _end)
    try:
        victim = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return
    if start_ticks(int(pid)) != int(ticks):
        return
    # The stops must stay short even where the processors are contended.
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    try:
        alternate(victim, float(run_s), float(stop_s), time.monotonic() + float(limit_s))
    finally:
        _send(victim, signal.SIGCONT)


def alternate(victim: int, run_s: float, stop_s: float, until: float) -> None:
    """Let it run and stop it in turn until one of the ends above.

    Args:
        victim: its pidfd.
        run_s: how long it runs each time.
        stop_s: how long it is stopped each time.
        until: the limit, monotonic seconds.
    """
    while time.monotonic() < until:
        for number, pause_s in ((signal.SIGCONT, run_s), (signal.SIGSTOP, stop_s)):
            if not _send(victim, number) or select.select([0, victim], [], [], pause_s)[0]:
                return


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot; -1 if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return -1


def _send(victim: int, number: int) -> bool:
    try:
        signal.pidfd_send_signal(victim, number)
    except ProcessLookupError:
        return False
    return True


def _end(number: int, frame: object) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
