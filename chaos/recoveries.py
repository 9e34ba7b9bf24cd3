"""Recoveries of a history: read from the target's own reports, or derived where it reports none.

Rules kept here:

- The judge's own clock stands beside the target's: `measured_s` runs from the first fault that a
  recovery answers to the first step that the job committed afterwards.
- A fault belongs to the first recovery that ends after it, if that one names its rank; else to the first
  of the next two that no other fault explains, or to the second if that one names it. So a wrong name is
  a wrong name, not a missing recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from chaos.records import (
    Cause,
    Commit,
    Event,
    FaultTrail,
    Recovery,
    Worker,
    float_of,
    int_of,
    list_of,
    text_of,
    time_of,
)

PHASES = ("detect", "fence", "regroup", "transfer", "resume")


def reported_recoveries(
    done: Iterable[Event], commits: Sequence[Commit], fired: Sequence[FaultTrail]
) -> tuple[Recovery, ...]:
    """The recoveries that the target reported, each with its faults and the judge's own time.

    Args:
        done: the ``recovery.done`` events, oldest first.
        commits: all commits, oldest first.
        fired: the faults that fired, oldest first.
    """
    found = [_reported(event) for event in done]
    owners = _owners(found, fired)
    result = []
    for position, recovery in enumerate(found):
        answered = [fault for fault in fired if owners.get(fault.id) == position]
        result.append(
            replace(
                recovery,
                faults=tuple(fault.id for fault in answered),
                measured_s=_measured(recovery, answered, commits),
            )
        )
    return tuple(result)


def _reported(event: Event) -> Recovery:
    causes = tuple(
        Cause(rank=int_of(item, "rank"), kind=text_of(item, "kind"), detail=text_of(item, "detail") or "")
        for item in list_of(event, "causes")
        if isinstance(item, dict)
    )
    return Recovery(
        t=time_of(event),
        generation=int_of(event, "generation"),
        causes=causes,
        detect_s=float_of(event, "detect_s"),
        fence_s=float_of(event, "fence_s"),
        regroup_s=float_of(event, "regroup_s"),
        transfer_s=float_of(event, "transfer_s"),
        resume_s=float_of(event, "resume_s"),
        total_s=float_of(event, "total_s"),
        bytes=int_of(event, "bytes"),
    )


def _owners(found: Sequence[Recovery], fired: Sequence[FaultTrail]) -> dict[str, int]:
    """Which recovery answers which fault: fault id -> position in `found`."""
    named = [{cause.rank for cause in recovery.causes} for recovery in found]
    owners: dict[str, int] = {}
    for fault in fired:
        first = next(iter(_after(found, fault)), None)
        if first is not None and fault.rank in named[first]:
            owners[fault.id] = first
    for fault in fired:
        if fault.id in owners:
            continue
        # It struck while another fault's recovery was ending, or it was called by a wrong name.
        near = _after(found, fault)[:2]
        fits = [position for position in near if position not in owners.values()]
        fits += [position for position in near[1:] if fault.rank in named[position]]
        if fits:
            owners[fault.id] = fits[0]
    return owners


def _after(found: Sequence[Recovery], fault: FaultTrail) -> list[int]:
    """Positions of the recoveries that ended after the fault fired."""
    return [i for i, recovery in enumerate(found) if recovery.t >= (fault.fired_t or 0.0)]


def _measured(recovery: Recovery, answered: Sequence[FaultTrail], commits: Sequence[Commit]) -> float | None:
    """Seconds from the first answered fault to the first own commit of the recovery's generation."""
    if not answered or recovery.generation is None:
        return None
    start_t = min(fault.fired_t for fault in answered if fault.fired_t is not None)
    for commit in commits:
        if (
            not commit.adopted
            and commit.t >= start_t
            and commit.generation is not None
            and commit.generation >= recovery.generation
        ):
            return commit.t - start_t
    return None


@dataclass
class _Attempt:
    """One life of a job that restarts as a whole."""

    t: float
    pid_of_rank: dict[int, int] = field(default_factory=dict)

    @property
    def pids(self) -> set[int]:
        return set(self.pid_of_rank.values())


def _attempts(workers: Sequence[Worker], commits: Sequence[Commit]) -> list[_Attempt]:
    """The job's lives: a new one begins when a rank shows up with another process.

    Only processes that commit count, if any commit names its process: a data loader's workers carry their
    trainer's rank, and a life that ended before its first step belongs to the next one.
    """
    committing = {commit.pid for commit in commits if commit.pid is not None}
    seen = [
        (w.t, w.rank, w.pid)
        for w in workers
        if w.rank is not None and (not committing or w.pid in committing)
    ]
    seen += [(c.t, c.rank, c.pid) for c in commits if c.pid is not None]
    attempts: list[_Attempt] = []
    for t, rank, pid in sorted(seen, key=lambda item: item[0]):
        if not attempts:
            attempts.append(_Attempt(t))
        current = attempts[-1]
        if current.pid_of_rank.setdefault(rank, pid) == pid:
            continue
        # A late word of a process of an earlier life does not start another one.
        if not any(pid in attempt.pids for attempt in attempts):
            attempts.append(_Attempt(t, {rank: pid}))
    return attempts


def derived_recoveries(
    workers: Sequence[Worker], commits: Sequence[Commit], fired: Sequence[FaultTrail]
) -> tuple[Recovery, ...]:
    """Recoveries of a target that reports none: one for each time that its processes started anew.

    `detect_s` runs from the first fault to the first new process, so it holds the target's own
    detection, tear-down and process start; `total_s` to the first commit above the highest step
    that was committed before.
    """
    result = []
    attempts = _attempts(workers, commits)
    for number, (old, new) in enumerate(pairwise(attempts), start=1):
        # The first life also owns faults that fired before any rank showed itself.
        since_t = old.t if number > 1 else float("-inf")
        answered = [fault for fault in fired if since_t < (fault.fired_t or 0.0) <= new.t]
        start_t = min((fault.fired_t or 0.0 for fault in answered), default=None)
        passed = next(
            (c for c in commits if _is_of(c, new) and c.step > _highest(commits, new)),
            None,
        )
        total_s = passed.t - start_t if passed is not None and start_t is not None else None
        result.append(
            Recovery(
                t=passed.t if passed is not None else new.t,
                causes=tuple(
                    Cause(rank=fault.rank, kind=None, detail=fault.name or "") for fault in answered
                ),
                detect_s=new.t - start_t if start_t is not None else None,
                total_s=total_s,
                measured_s=total_s,
                faults=tuple(fault.id for fault in answered),
                derived=True,
            )
        )
    return tuple(result)


def _is_of(commit: Commit, life: _Attempt) -> bool:
    """Whether the commit was made in this life; one without a pid is told by its time."""
    return commit.t >= life.t if commit.pid is None else commit.pid in life.pids


def _highest(commits: Sequence[Commit], new: _Attempt) -> int:
    """The highest step committed by the job before this life; -1 if none."""
    return max(
        (commit.step for commit in commits if commit.t <= new.t and commit.pid not in new.pids), default=-1
    )
