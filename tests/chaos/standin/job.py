"""A job that costs nothing: ranks that count steps, and a supervisor that replaces those that die or freeze.

Usage: job.py WORLD STEPS STEP_S [--leave-shm] [--leave-file] [--orphan] [--fail] [--busy] [--stuck].
No torch, no collectives: a rank that is replaced goes on after the last step that it committed. The ranks go
in step all the same: none commits before all have entered the generation and done the step, and none leaves
before all have committed the last. With --stuck every rank waits for ever once one was replaced.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time

from recovery import events

WORLD, STEPS, STEP_S = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
FLAGS = set(sys.argv[4:])
# How long a frozen rank is left alone: less, and nobody could have seen that it was frozen.
FROZEN_S = 0.05


def start_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def state(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


# As all processes see it: the newest generation, then of each rank the one that it has entered, how many
# steps it has done, and how many it has committed.
SHARED = memoryview(mmap.mmap(-1, 8 * (1 + 3 * WORLD))).cast("q")
NOW, ENTERED, DONE, COMMITTED = SHARED[:1], *(SHARED[1 + i * WORLD : 1 + (i + 1) * WORLD] for i in range(3))
PAUSE_S = 0.0005


def enter(rank: int, known: int) -> int:
    """Say that the newest generation was entered, once."""
    newest = NOW[0]
    if newest != known:
        events.emit("generation.formed", generation=newest, rank=rank, fds=8, threads=1, rss_bytes=10**7)
        ENTERED[rank] = newest
        if "--stuck" in FLAGS and newest > 1:
            signal.pause()
    return newest


def together(rank: int, generation: int, counts: memoryview[int], wanted: int) -> int:
    """Wait until all ranks are in the newest generation and have that count; returns the generation."""
    while True:
        generation = enter(rank, generation)
        if all(one == generation for one in ENTERED) and all(count >= wanted for count in counts):
            return generation
        time.sleep(PAUSE_S)


def spend(seconds: float) -> None:
    """A step's time: asleep, or with --busy on the processor."""
    limit = time.monotonic() + seconds
    while "--busy" in FLAGS and time.monotonic() < limit:
        pass
    time.sleep(max(0.0, limit - time.monotonic()))


def worker(rank: int, first: int, out: int) -> None:
    """Commit steps `first`.. one after the other."""
    # Ends with its supervisor, as the ranks of a real runtime do.
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), RECOVERY_ROLE="worker")
    generation = 0
    DONE[rank] = COMMITTED[rank] = first
    for step in range(first, STEPS):
        generation = enter(rank, generation)
        events.emit("step.begin", rank=rank, generation=generation, step=step)
        spend(STEP_S)
        DONE[rank] = step + 1
        generation = together(rank, generation, DONE, step + 1)
        digest = hashlib.sha256(f"{os.environ['JOB_SEED']} {step}".encode()).hexdigest()[:16]
        events.emit(
            "step.commit",
            rank=rank,
            generation=generation,
            step=step,
            adopted=False,
            again=False,
            digest=digest,
            rng=f"{rank}-{step}",
            loss=1.0 / (step + 1),
            notes={"samples": [step * WORLD + rank]},
        )
        os.write(out, f"{rank} {step}\n".encode())
        COMMITTED[rank] = step + 1
    together(rank, generation, COMMITTED, STEPS)
    os._exit(0)


class Supervisor:
    def __init__(self) -> None:
        self.pids: dict[int, int] = {}
        self.done: dict[int, int] = {}
        self.generation = 1
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def fork(self, rank: int) -> None:
        pid = os.fork()
        if pid == 0:
            worker(rank, self.done.get(rank, -1) + 1, self.write)
        self.pids[rank] = pid
        events.emit("worker.start", pid=pid, start_ticks=start_ticks(pid), role="member", rank=rank)

    def members(self) -> list[dict[str, int]]:
        return [{"rank": rank, "pid": pid} for rank, pid in sorted(self.pids.items())]

    def run(self) -> int:
        os.environ["RECOVERY_ROLE"] = "supervisor"
        events.emit("job.start", world=WORLD, argv=sys.argv, seed=int(os.environ["JOB_SEED"]), config={})
        NOW[0] = self.generation
        for rank in range(WORLD):
            self.fork(rank)
        events.emit("generation.open", generation=1, members=self.members(), cause="start")
        while self.pids:
            self.progress()
            for rank, pid in list(self.pids.items()):
                self.look(rank, pid)
            time.sleep(0.002)
        events.emit("job.end", exit_code=0, reason="done", detail="")
        return 0

    def progress(self) -> None:
        try:
            for line in os.read(self.read, 65536).decode().splitlines():
                rank, step = map(int, line.split())
                self.done[rank] = max(step, self.done.get(rank, -1))
        except BlockingIOError:
            pass

    def look(self, rank: int, pid: int) -> None:
        seen = time.monotonic()
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended and os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
            events.emit("worker.exit", pid=pid, rank=rank, role="member", code=0, expected=True)
            del self.pids[rank]
            return
        if not ended and state(pid) != "T":
            return
        kind = "crash" if ended else "stopped"
        if not ended:
            time.sleep(FROZEN_S)
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        self.progress()
        events.emit("worker.exit", pid=pid, rank=rank, role="member", signal=9, expected=False)
        self.recover(rank, pid, kind, seen)

    def recover(self, rank: int, pid: int, kind: str, seen: float) -> None:
        self.generation += 1
        about = {"rank": rank, "generation": self.generation}
        events.emit("recovery.detect", pid=pid, kind=kind, detail="", **about)
        events.emit("recovery.fence", **about)
        NOW[0] = self.generation
        self.fork(rank)
        events.emit("generation.open", generation=self.generation, members=self.members(), cause=kind)
        for phase in ("regroup", "transfer", "resume"):
            events.emit(f"recovery.{phase}", **about)
        total = time.monotonic() - seen
        phases = {f"{name}_s": total / 5 for name in ("detect", "fence", "regroup", "transfer", "resume")}
        events.emit(
            "recovery.done",
            generation=self.generation,
            causes=[{"rank": rank, "kind": kind, "detail": ""}],
            total_s=total,
            bytes=0,
            **phases,
        )


if __name__ == "__main__":
    if "--fail" in FLAGS:
        raise ImportError("no module named 'flux_capacitor'")
    if "--leave-shm" in FLAGS:
        with open(f"/dev/shm/torch_{os.getpid()}_standin", "w") as file:
            file.write("left")
    if "--leave-file" in FLAGS:
        tempfile.mkstemp(prefix="forgotten-")
    if "--orphan" in FLAGS:
        subprocess.Popen(["sleep", "30"], start_new_session=True)
    sys.exit(Supervisor().run())
