"""Right histories, written as a job would live them: `Job(world=2).steps(3).kill(1).finish()`.

Everything that a job computes is a function of (rank, step), so a job with faults and its twin agree
exactly where they should. Tests break a right history with `without`, `changed` and `plus`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from chaos.history import History
from chaos.invariants import Finding, Invariant

Events = list[dict[str, Any]]
STEP_S = 0.02
PHASES_S = {"detect": 0.03, "fence": 0.01, "regroup": 0.05, "transfer": 0.02, "resume": 0.04}


def digest_at(step: int) -> str:
    return f"{step + 1:08d}ab"


def parts_at(step: int) -> dict[str, str]:
    return {
        part: f"{part[:3]}{step:05d}" for part in ("model", "buffers", "optimizer", "scheduler", "scaler")
    }


def results_of(rank: int, step: int) -> dict[str, Any]:
    """What a rank reports with its own commit of a step."""
    return {
        "digest": digest_at(step),
        "parts": parts_at(step),
        "rng": f"rng{rank}{step:06d}",
        "notes": {"samples": [100 * step + 2 * rank, 100 * step + 2 * rank + 1]},
    }


class Job:
    """A job of our runtime. Methods append events in the order of a right run and return the job."""

    def __init__(self, world: int = 2, first_pid: int = 100) -> None:
        self.events: Events = []
        self.world, self.t, self.step, self.generation = world, 0.0, 0, 1
        self.next_pid = first_pid
        self.pids: dict[int, int] = {}
        self.faults: list[dict[str, Any]] = []
        self.emit("target.start", source="engine", pid=7, argv=["job"])
        self.emit("job.start", world=world, argv=["job"], seed=1, config={})
        for rank in range(world):
            self._start(rank)
        self._open("start")
        self._form()

    def emit(self, event: str, source: str = "recovery", **fields: Any) -> None:
        self.t = round(self.t + 0.0001, 6)
        self.events.append({"t": self.t, "event": event, "source": source, "pid": 50, **fields})

    def wait(self, seconds: float) -> Job:
        self.t = round(self.t + seconds, 6)
        return self

    # -- a quiet life

    def steps(self, count: int) -> Job:
        for _ in range(count):
            self._begin()
            self.wait(STEP_S)
            for rank in range(self.world):
                self._commit(rank)
            self.step += 1
        return self

    def finish(self, code: int = 0, reason: str = "done") -> Job:
        self.emit("job.end", exit_code=code, reason=reason, detail="")
        for rank, pid in self.pids.items():
            self.emit("worker.exit", pid=pid, rank=rank, role="member", code=code, signal=None, expected=True)
        self.emit("target.exit", source="engine", pid=7, code=code, signal=None, expected=False)
        self.emit("leak.check", source="engine", processes=[], shm=[], sockets=[], files=[])
        return self

    # -- faults

    def fault(self, name: str, rank: int, undone: bool = False, expects: str | None = "crash") -> str:
        """A fault with complete evidence. Returns its id."""
        fault_id = f"f{len(self.faults) + 1}"
        self.faults.append(
            {
                "id": fault_id,
                "name": name,
                "where": {"rank": rank},
                "when": {"step": self.step},
                "params": {},
                "duration_s": None,
                "expects": expects,
                "has_undo": undone,
            }
        )
        address = {
            "fault": fault_id,
            "name": name,
            "rank": rank,
            "pid": self.pids[rank],
            "step": self.step,
            "phase": "backward",
            "generation": self.generation,
        }
        for stage in ("armed", "reached", "fired", "verified") + (
            ("undone", "undo_verified") if undone else ()
        ):
            self.emit(f"fault.{stage}", source="engine", **address, evidence={"what": stage, "proven": True})
        return fault_id

    def kill(
        self,
        *ranks: int,
        ahead: Iterable[int] = (),
        during: int | None = None,
        name: str = "process.kill",
        kind: str = "crash",
    ) -> Job:
        """Kill ranks in the current step and recover.

        Args:
            ahead: ranks that commit the step just before. If all of them die, it is committed again.
            during: a further rank that is killed while the next generation forms.
        """
        ahead = set(ahead)
        self._begin()
        self.wait(STEP_S / 2)
        for rank in sorted(ahead):
            self._commit(rank)
        for rank in ranks:
            self.fault(name, rank, expects=kind)
        survivors = [rank for rank in range(self.world) if rank not in ranks]
        for rank in survivors:
            if rank not in ahead:
                self.emit(
                    "step.rollback",
                    rank=rank,
                    pid=self.pids[rank],
                    generation=self.generation,
                    step=self.step,
                    reason="peer lost",
                )
        lost = list(ranks)
        self._lose(ranks, survivors, kind)
        if during is not None:
            self._open("crash")
            self.fault(name, during, expects=kind)
            survivors = [rank for rank in survivors if rank != during]
            self._lose((during,), survivors, kind)
            lost.append(during)
        assert survivors, "someone has to hold the state"
        self._resume(lost, survivors, ahead, kind)
        return self

    def _lose(self, ranks: Iterable[int], survivors: list[int], kind: str) -> None:
        for rank in ranks:
            pid = self.pids[rank]
            self.emit("worker.exit", pid=pid, rank=rank, role="member", code=None, signal=9, expected=False)
            self.emit("recovery.detect", rank=rank, pid=pid, kind=kind, detail="", generation=self.generation)
            self.emit("fence", rank=rank, pid=pid, how="exited")
        for rank in survivors:
            self.emit("group.release", generation=self.generation, pid=self.pids[rank], rank=rank, sockets=4)
        for rank in ranks:
            self._start(rank)
        self.generation += 1

    def _resume(self, lost: list[int], survivors: list[int], ahead: set[int], kind: str) -> None:
        holders = [rank for rank in survivors if rank in ahead] or survivors
        newest = self.step if any(rank in ahead for rank in survivors) else self.step - 1
        self._open(kind)
        for rank in holders:
            self.emit(
                "state.send",
                rank=rank,
                pid=self.pids[rank],
                generation=self.generation,
                version=newest + 1,
                bytes=10,
                digest=digest_at(newest),
            )
        behind = [rank for rank in range(self.world) if rank not in holders]
        for rank in behind:
            self.emit(
                "state.receive",
                rank=rank,
                pid=self.pids[rank],
                generation=self.generation,
                version=newest + 1,
                bytes=10,
                digest=digest_at(newest),
                sources=holders,
                verified=True,
            )
        self._form()
        self.wait(sum(PHASES_S.values()))
        if newest >= 0:
            for rank in behind:
                self._commit(rank, step=newest, adopted=True)
        self.step = newest + 1
        self.steps(1)
        phases: dict[str, Any] = {f"{phase}_s": value for phase, value in PHASES_S.items()}
        causes = [{"rank": rank, "kind": kind, "detail": ""} for rank in lost]
        self.emit(
            "recovery.done",
            generation=self.generation,
            total_s=sum(PHASES_S.values()),
            bytes=10,
            causes=causes,
            **phases,
        )

    # -- single events

    def _start(self, rank: int) -> None:
        self.pids[rank] = self.next_pid
        self.next_pid += 1
        self.emit(
            "worker.start", pid=self.pids[rank], start_ticks=self.pids[rank] * 10, role="member", rank=rank
        )

    def _open(self, cause: str) -> None:
        members = [{"rank": rank, "pid": self.pids[rank]} for rank in range(self.world)]
        self.emit("generation.open", generation=self.generation, members=members, cause=cause)

    def _form(self) -> None:
        for rank in range(self.world):
            self.emit(
                "generation.formed",
                rank=rank,
                pid=self.pids[rank],
                generation=self.generation,
                fds=20,
                threads=5,
                rss_bytes=300_000_000,
            )

    def _begin(self) -> None:
        for rank in range(self.world):
            self.emit(
                "step.begin", rank=rank, pid=self.pids[rank], generation=self.generation, step=self.step
            )

    def _commit(self, rank: int, step: int | None = None, adopted: bool = False) -> None:
        step = self.step if step is None else step
        seen = any(
            e["event"] == "step.commit" and (e["rank"], e["step"]) == (rank, step) for e in self.events
        )
        results = {"digest": digest_at(step), "parts": parts_at(step)} if adopted else results_of(rank, step)
        self.emit(
            "step.commit",
            rank=rank,
            pid=self.pids[rank],
            generation=self.generation,
            step=step,
            adopted=adopted,
            again=seen,
            **results,
        )

    # -- what a test hands to the judge

    def scenario(self, **more: Any) -> dict[str, Any]:
        return {
            "name": "one",
            "seed": 1,
            "faults": self.faults,
            "target": {"kind": "recovery", "world": self.world, "steps": self.step},
            "bounds": {"detect_s": 0.5, "recover_s": 2.0, "run_s": 60.0},
            "expect": {"verdict": "PASS", "invariant": None},
            "recoveries": None,
            **more,
        }

    def twin(self) -> History:
        """The same job without faults."""
        return History(Job(self.world, first_pid=9000).steps(self.step).finish().events)

    def history(self) -> History:
        return History(self.events)


class CommandJob:
    """An unchanged script under torchrun: only the agent and the engine report; restarts as a whole."""

    def __init__(self, world: int = 2, digests: bool = True) -> None:
        self.events: Events = []
        self.world, self.t, self.step, self.digests = world, 0.0, 0, digests
        self.next_pid = 200
        self.pids: dict[int, int] = {}
        self.faults: list[dict[str, Any]] = []
        self.emit("target.start", source="engine", pid=7, argv=["torchrun"])
        self._attempt()

    def emit(self, event: str, source: str = "agent", **fields: Any) -> None:
        self.t = round(self.t + 0.0001, 6)
        self.events.append({"t": self.t, "event": event, "source": source, "pid": 50, **fields})

    def _attempt(self) -> None:
        for rank in range(self.world):
            self.pids[rank] = self.next_pid
            self.next_pid += 1
            self.emit(
                "worker.start", rank=rank, pid=self.pids[rank], start_ticks=self.pids[rank] * 10, argv=[]
            )

    def steps(self, count: int) -> CommandJob:
        for _ in range(count):
            self.t = round(self.t + STEP_S, 6)
            for rank in range(self.world):
                results = results_of(rank, self.step) if self.digests else {}
                results.pop("notes", None)
                self.emit("step.commit", rank=rank, pid=self.pids[rank], step=self.step, **results)
            self.step += 1
        return self

    def kill(self, rank: int, checkpoint: int, downtime_s: float = 5.0) -> CommandJob:
        """Kill a rank; the job starts again after step `checkpoint` and takes one step."""
        fault_id = f"f{len(self.faults) + 1}"
        self.faults.append(
            {
                "id": fault_id,
                "name": "process.kill",
                "where": {"rank": rank},
                "expects": "crash",
                "when": {"step": self.step},
                "has_undo": False,
            }
        )
        for stage in ("armed", "fired", "verified"):
            self.emit(
                f"fault.{stage}",
                source="engine",
                fault=fault_id,
                name="process.kill",
                rank=rank,
                pid=self.pids[rank],
                step=self.step,
                evidence={},
            )
        self.t = round(self.t + downtime_s, 6)
        self._attempt()
        self.step = checkpoint + 1
        return self

    def finish(self, code: int = 0) -> CommandJob:
        self.emit("target.exit", source="engine", pid=7, code=code, signal=None, expected=False)
        self.emit("leak.check", source="engine", processes=[], shm=[], sockets=[], files=[])
        return self

    def scenario(self, **more: Any) -> dict[str, Any]:
        return {
            "name": "torchrun",
            "seed": 1,
            "faults": self.faults,
            "bounds": {"recover_s": 30.0},
            "target": {"kind": "command", "world": self.world, "steps": self.step},
            "expect": {"verdict": "PASS"},
            **more,
        }

    def twin(self) -> History:
        return History(CommandJob(self.world, self.digests).steps(self.step).finish().events)

    def history(self) -> History:
        return History(self.events)


# -- how tests break a history

Choice = Callable[[dict[str, Any]], bool]


def matching(**fields: Any) -> Choice:
    """Chooses events by exact fields, e.g. ``matching(event="step.commit", rank=1)``."""
    return lambda event: all(event.get(key) == value for key, value in fields.items())


def without(events: Events, choice: Choice) -> Events:
    return [event for event in events if not choice(event)]


def changed(events: Events, choice: Choice, **fields: Any) -> Events:
    """The first chosen event (there must be one) with other fields; None removes a field."""
    position = next(i for i, event in enumerate(events) if choice(event))
    new = {**events[position], **fields}
    return [*events[:position], {k: v for k, v in new.items() if v is not None}, *events[position + 1 :]]


def plus(events: Events, choice: Choice, after_s: float = 0.00001, **fields: Any) -> Events:
    """A changed copy of the first chosen event, `after_s` later."""
    event = next(event for event in events if choice(event))
    return [*events, {**event, "t": event["t"] + after_s, **fields}]


def verdict_of(
    check: Invariant,
    job: Job | CommandJob,
    events: Events | None = None,
    reference: History | Literal["twin"] | None = "twin",
    **scenario: Any,
) -> Finding:
    """The finding of one invariant on the job, or on a broken copy of its events."""
    twin = job.twin() if reference == "twin" else reference
    return check(History(job.events if events is None else events), twin, job.scenario(**scenario))
