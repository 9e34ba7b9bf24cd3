"""The process that outlives the tool.

It is started before anything else of a run, in a session of its own, ignores the signals a terminal sends,
and waits for one of two things: the word that the run ended properly, or the end of the tool without it. Then
it finishes the run. It runs on the standard library, so it is there in 50 ms and has nothing that could fail
to import.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from chaos.clusters import processes
from chaos.undo.finish import finish

DONE = b"done\n"
READY = b"ready\n"


class Reaper:
    """The engine's handle on its reaper."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its process id: the one process that a run's sweep must spare."""
        return self._process.pid

    @classmethod
    def start(cls, journal: Path) -> Reaper:
        """Start it and wait until it watches this process.

        Raises:
            RuntimeError: it did not start; a run without it must not begin.
        """
        root = str(Path(__file__).resolve().parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from chaos.undo.reaper import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code, str(os.getpid()), str(journal.resolve())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
            env=environment(),
        )
        assert process.stdout is not None
        if process.stdout.readline() != READY:
            process.kill()
            raise RuntimeError("the reaper, which cleans up if this tool is killed, did not start")
        return cls(process)

    def stop(self) -> None:
        """Tell it that the run ended properly, and wait until it is gone."""
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(DONE)
            stdin.flush()
        except OSError:
            pass
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        stdin.close()
        assert self._process.stdout is not None
        self._process.stdout.close()


def environment() -> dict[str, str]:
    """What the reaper starts from: the tool's environment, with two changes.

    The marker of a run that the tool itself may be part of is left out, and the folders that hold nft and ip,
    which the PATH of an ordinary user leaves out, are added.
    """
    kept = {name: value for name, value in os.environ.items() if name != processes.MARKER}
    path = [part for part in kept.get("PATH", os.defpath).split(os.pathsep) if part]
    kept["PATH"] = os.pathsep.join(dict.fromkeys([*path, "/usr/sbin", "/sbin", "/usr/bin", "/bin"]))
    return kept


def main() -> None:
    """`reaper PID JOURNAL`: watch the process, finish the journal's run if it dies before it says `done`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    tool, journal = int(sys.argv[1]), Path(sys.argv[2])
    try:
        watched = os.pidfd_open(tool)
    except ProcessLookupError:
        return
    os.write(1, READY)
    if not _said_done(watched):
        finish(journal, "reaper")


def _said_done(watched: int) -> bool:
    """Wait for the word on standard input, or for the tool's end."""
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    poll.register(0, select.POLLIN)
    said = b""
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if 0 in ready:
            data = os.read(0, 64)
            said += data
            if said.endswith(DONE):
                return True
            if not data:
                # Its end of the pipe is closed; only its end as a process counts.
                poll.unregister(0)
                continue
        # Both may come at once; the word is read first, because it is true even if the tool is dead by now.
        if watched in ready:
            return False


if __name__ == "__main__":
    main()
