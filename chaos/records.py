"""Typed records of a history: what the judge reads instead of raw JSON.

Rules kept here:

- A record is built from one event (or one fault's few events) and holds no reference to the rest.
- Absent means unknown: a missing key becomes ``None`` (or an empty mapping), never a guess.
- Wrong types are treated as absent. A history may come from a process that was killed while
  writing, and the judge has to say "too thin" about it, not crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Event = Mapping[str, object]


def text_of(event: Event, key: str) -> str | None:
    """The string under `key`, or None."""
    value = event.get(key)
    return value if isinstance(value, str) else None


def int_of(event: Event, key: str) -> int | None:
    """The integer under `key`, or None (booleans are not integers here)."""
    value = event.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def float_of(event: Event, key: str) -> float | None:
    """The number under `key`, or None."""
    value = event.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def map_of(event: Event, key: str) -> dict[str, object]:
    """The object under `key`, or an empty one."""
    value = event.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def list_of(event: Event, key: str) -> list[object]:
    """The list under `key`, or an empty one."""
    value = event.get(key)
    return list(value) if isinstance(value, (list, tuple)) else []


def time_of(event: Event) -> float:
    """Monotonic time of the event in seconds; 0.0 when it carries none."""
    return float_of(event, "t") or 0.0


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One ``step.commit``: a rank says that it holds the state after `step`.

    Attributes:
        adopted: the state came from a peer instead of the rank's own work.
        rng: digest over all random generators; `rng_parts` the same per generator, where reported.
        local: parts of the state that are sharded, and so differ between ranks by design.
    """

    t: float
    rank: int
    step: int
    pid: int | None = None
    generation: int | None = None
    adopted: bool = False
    again: bool = False
    digest: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    rng: str | None = None
    rng_parts: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    notes: Mapping[str, object] = field(default_factory=dict)
    loss: float | None = None

    @property
    def where(self) -> str:
        """The commit's address for a message: ``step 12 rank 2 (generation 3, pid 41)``."""
        known = [
            f"{name} {value}"
            for name, value in (("generation", self.generation), ("pid", self.pid))
            if value is not None
        ]
        return f"step {self.step} rank {self.rank}" + (f" ({', '.join(known)})" if known else "")

    @classmethod
    def of(cls, event: Event) -> Commit | None:
        """The record of a ``step.commit`` event, or None if it names no rank or no step."""
        rank, step = int_of(event, "rank"), int_of(event, "step")
        if rank is None or step is None:
            return None
        # The engine speaks for a script that prints its steps; its own pid is not the committer's.
        pid = None if event.get("source") == "engine" else int_of(event, "pid")
        parts = {name: str(value) for name, value in map_of(event, "parts").items()}
        return cls(
            t=time_of(event),
            rank=rank,
            step=step,
            pid=pid,
            generation=int_of(event, "generation"),
            adopted=event.get("adopted") is True,
            again=event.get("again") is True,
            digest=text_of(event, "digest"),
            parts=parts,
            rng=text_of(event, "rng"),
            rng_parts={name: str(value) for name, value in map_of(event, "rng_parts").items()},
            local=frozenset(str(name) for name in list_of(event, "local")),
            notes=map_of(event, "notes"),
            loss=float_of(event, "loss"),
        )


@dataclass(frozen=True, kw_only=True)
class Worker:
    """One process of the job, from its ``worker.start`` (or ``process.seen``) on."""

    t: float
    pid: int
    start_ticks: int | None = None
    rank: int | None = None
    role: str | None = None


@dataclass(frozen=True, kw_only=True)
class Exit:
    """One ``worker.exit``: how a process of the job ended."""

    t: float
    pid: int
    rank: int | None = None
    code: int | None = None
    signal: int | None = None
    expected: bool = False


@dataclass(frozen=True, kw_only=True)
class Formed:
    """One ``generation.formed``: a member entered a generation, with its size at that moment."""

    t: float
    generation: int
    rank: int
    pid: int | None = None
    fds: int | None = None
    threads: int | None = None
    rss_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Generation:
    """One generation: who was invited (``generation.open``) and who entered."""

    number: int
    t: float | None = None
    cause: str | None = None
    members: tuple[tuple[int, int | None], ...] = ()
    formed: tuple[Formed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FaultTrail:
    """Everything the engine wrote about one planned fault; times in monotonic seconds.

    A time is None when that stage was never reported.
    """

    id: str
    name: str | None = None
    rank: int | None = None
    pid: int | None = None
    nodes: tuple[int, ...] = ()
    """The nodes that a fault of nodes or networks was aimed at."""
    ranks: tuple[int, ...] = ()
    """The ranks that were on them."""
    step: int | None = None
    phase: str | None = None
    generation: int | None = None
    armed_t: float | None = None
    reached_t: float | None = None
    fired_t: float | None = None
    verified_t: float | None = None
    undone_t: float | None = None
    undo_verified_t: float | None = None
    failed: str | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)

    @property
    def touched(self) -> frozenset[int]:
        """The nodes that it may have cost their place: those aimed at, and both ends of every cut way."""
        fired = self.evidence.get("fired")
        data = fired.get("data") if isinstance(fired, Mapping) else None
        pairs = data.get("pairs") if isinstance(data, Mapping) else None
        ends = [end for pair in pairs for end in str(pair).split(">")] if isinstance(pairs, list) else []
        return frozenset(self.nodes) | {int(end) for end in ends if end.isdigit()}


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason that a recovery gave: which rank, what kind."""

    rank: int | None
    kind: str | None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One recovery. Durations in seconds; None when the target does not show that phase.

    `measured_s` is the judge's own figure: from the first fault that the recovery answers to the
    next step that the job committed. `derived` marks one that the target did not report itself.
    """

    t: float
    generation: int | None = None
    causes: tuple[Cause, ...] = ()
    detect_s: float | None = None
    fence_s: float | None = None
    regroup_s: float | None = None
    transfer_s: float | None = None
    resume_s: float | None = None
    total_s: float | None = None
    bytes: int | None = None
    measured_s: float | None = None
    faults: tuple[str, ...] = ()
    derived: bool = False

    @property
    def cause(self) -> str:
        """The kinds of the causes, joined: ``crash+stopped``; the faults' names where no kind was told."""
        return "+".join(cause.kind or cause.detail or "unknown" for cause in self.causes) or "unknown"

    @property
    def rank(self) -> int | None:
        """The rank of the first cause."""
        return self.causes[0].rank if self.causes else None
