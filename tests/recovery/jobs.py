"""Running real jobs on the runtime and striking their processes from outside."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery.launch import Job, Zygote

ROOT = Path(__file__).parents[2]
TINY_GPT = ROOT / "suites" / "workloads" / "tiny_gpt.py"
Event = dict[str, Any]


@dataclass
class Outcome:
    code: int | None
    events: list[Event]
    stdout: str
    stderr: str

    def of(self, name: str) -> list[Event]:
        return [event for event in self.events if event["event"] == name]

    def digests(self) -> dict[int, set[str]]:
        """Every digest that any rank has reported for each committed step."""
        found: dict[int, set[str]] = {}
        for commit in self.of("step.commit"):
            found.setdefault(commit["step"], set()).add(commit["digest"])
        return found

    def tell(self) -> None:
        """Print what happened beside the steps: pytest shows it where a test has failed."""
        for event in self.events:
            if event["event"] not in ("step.begin", "step.commit"):
                print(json.dumps(event))
        print(self.stderr, end="")


@dataclass
class Launcher:
    """Starts jobs from one warm process."""

    zygote: Zygote
    folder: Path
    count: int = 0
    live: list[Job] = field(default_factory=list)

    @classmethod
    def start(cls, folder: Path) -> Launcher:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        return cls(Zygote.start(env), folder)

    def run(
        self,
        args: list[str],
        strike: Callable[[Running], None] | None = None,
        *,
        env: dict[str, str] | None = None,
        timeout_s: float = 90,
    ) -> Outcome:
        """Launch, let `strike` watch and disturb, wait for the end."""
        self.count += 1
        base = self.folder / f"job{self.count}"
        base.mkdir()
        events = base / "events.jsonl"
        events.touch()
        given = {"RECOVERY_EVENTS": str(events), "RECOVERY_DIGEST": "1", **(env or {})}
        with open(base / "out", "wb") as out, open(base / "err", "wb") as err:
            job = self.zygote.launch(args, given, str(ROOT), out.fileno(), err.fileno())
        running = Running(job, events, time.monotonic() + timeout_s)
        try:
            if strike is not None:
                strike(running)
            running.until_end()
        finally:
            job.kill()
            code = job.wait(10)
        running.read()
        running.close()
        outcome = Outcome(code, running.events, (base / "out").read_text(), (base / "err").read_text())
        outcome.tell()
        return outcome

    def stop(self) -> None:
        self.zygote.stop()


class Running:
    """A live job: its events as they come, its processes by rank."""

    def __init__(self, job: Job, path: Path, deadline: float) -> None:
        self.job = job
        self.deadline = deadline
        self.events: list[Event] = []
        self._file = open(path, "rb")  # noqa: SIM115
        self._rest = b""

    def close(self) -> None:
        self._file.close()

    def read(self) -> list[Event]:
        data = self._rest + self._file.read()
        *lines, self._rest = data.split(b"\n")
        new = [json.loads(line) for line in lines]
        self.events += new
        return new

    def stream(self) -> Iterator[Event]:
        """Events until the job ends.

        Raises:
            TimeoutError: the job's time is up.
        """
        while True:
            new = self.read()
            yield from new
            if not new:
                if self.job.poll() is not None:
                    yield from self.read()
                    return
                if time.monotonic() > self.deadline:
                    raise TimeoutError(f"the job did not end; last events: {self.events[-5:]}")
                time.sleep(0.001)  # a file that another process appends to has no event to wait for

    def until_end(self) -> None:
        for _ in self.stream():
            pass

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event that is wanted.

        Raises:
            AssertionError: the job ended first.
        """
        for event in self.stream():
            if wanted(event):
                return event
        raise AssertionError(f"the job ended with {self.job.returncode}; last: {self.events[-3:]}")

    def until_commit(self, step: int, rank: int | None = None) -> Event:
        return self.until(
            lambda e: e["event"] == "step.commit" and e["step"] >= step and rank in (None, e["rank"])
        )

    def pid(self, rank: int) -> int:
        """The process that owns a rank by the newest events."""
        owner = None
        for event in self.events:
            if event["event"] in ("worker.start", "worker.promoted") and event.get("rank") == rank:
                owner = event["pid"]
        assert owner is not None
        return int(owner)

    def signal(self, rank: int, number: int = signal.SIGKILL) -> float:
        """Strike the present owner; returns the moment."""
        pid = self.pid(rank)
        moment = time.monotonic()
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # the job was quicker
        return moment


if __name__ == "__main__":
    # A soak by hand: python tests/recovery/jobs.py KILLS SEED [stop] [double]
    import random
    import statistics
    import tempfile

    kills, rng = int(sys.argv[1]), random.Random(int(sys.argv[2]))
    stop, double = "stop" in sys.argv, "double" in sys.argv
    every = 4
    steps = kills * every + 6
    workload = [str(TINY_GPT), "--steps", str(steps)]
    with tempfile.TemporaryDirectory() as name:
        launcher = Launcher.start(Path(name))
        took: list[float] = []

        def strike(running: Running) -> None:
            for number in range(kills):
                at = running.until_commit(4 + number * every)
                rank = rng.randrange(4)
                newest = at["step"]
                frozen = stop and rng.random() < 0.5
                moment = running.signal(rank, signal.SIGSTOP if frozen else signal.SIGKILL)
                if double:
                    time.sleep(rng.uniform(0.001, 0.18))
                    running.read()
                    running.signal(rng.randrange(4))
                    newest = max(
                        [e["step"] for e in running.events if e["event"] == "step.commit"], default=newest
                    )
                done = running.until_commit(newest + 2)
                took.append(done["t"] - moment)

        reference = launcher.run(["--nproc-per-node", "4", *workload], timeout_s=600)
        outcome = launcher.run(
            ["--nproc-per-node", "4", "--max-restarts", "10000", *workload], strike, timeout_s=900
        )
        launcher.stop()
        print("codes", reference.code, outcome.code)
        wrong = [
            step for step, digests in outcome.digests().items() if digests != reference.digests().get(step)
        ]
        print("wrong steps", wrong[:10], "of", len(reference.digests()))
        took.sort()
        print(f"faults {len(took)} median {statistics.median(took):.3f} worst {took[-5:]}")
        done = outcome.of("recovery.done")
        for key in ("detect_s", "fence_s", "regroup_s", "transfer_s", "resume_s", "total_s"):
            values = sorted(e[key] for e in done)
            print(key, f"{statistics.median(values):.4f}", f"{values[-1]:.4f}")
        print(outcome.stderr[-1500:] if outcome.code else "")
        formed = outcome.of("generation.formed")
        print(
            [(e["fds"], e["threads"], e["rss_bytes"] >> 20) for e in formed if e["rank"] == 0][
                :: max(1, kills // 10)
            ]
        )
