"""The loss of a run beside its twin's. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from chaos.history import History


@dataclass(frozen=True)
class Curves:
    """Loss by step, averaged over the ranks that report one in both runs.

    Attributes:
        run: (step, loss), steps ascending.
        twin: the same of the run without faults; empty if there is none.
        differ: steps at which the two are not equal.
        worst: the largest distance between the two, 0.0 if none.
    """

    run: tuple[tuple[int, float], ...]
    twin: tuple[tuple[int, float], ...]
    differ: tuple[int, ...]
    worst: float


def losses(history: History) -> dict[int, dict[int, float]]:
    """Loss by rank and step; of a step that was committed again, the last one. Only finite numbers."""
    found: dict[int, dict[int, float]] = {}
    for commit in history.commits():
        # The loss beside an adopted state is that of the rank it came from.
        if not commit.adopted and commit.loss is not None and math.isfinite(commit.loss):
            found.setdefault(commit.rank, {})[commit.step] = commit.loss
    return found


def curves(history: History, twin: History | None) -> Curves | None:
    """The curves of a run and its twin; None if the run reports no loss."""
    mine, theirs = losses(history), losses(twin) if twin is not None else {}
    ranks = sorted(set(mine) & set(theirs)) if theirs else sorted(mine)
    if not ranks:
        return None
    steps = {step for rank in ranks for step in mine[rank]}
    # A step that only some ranks of the run committed is compared over those ranks alone.
    run, other = [], []
    for step in sorted(steps):
        told = [rank for rank in ranks if step in mine[rank] and (not theirs or step in theirs[rank])]
        if told:
            run.append((step, _mean(mine, told, step)))
            other += [(step, _mean(theirs, told, step))] if theirs else []
    beside = dict(other)
    far = {step: abs(loss - beside[step]) for step, loss in run if step in beside}
    differ = tuple(step for step, gap in far.items() if gap > 0)
    return Curves(tuple(run), tuple(other), differ, max(far.values(), default=0.0))


def _mean(losses: Mapping[int, Mapping[int, float]], ranks: list[int], step: int) -> float:
    return sum(losses[rank][step] for rank in ranks) / len(ranks)
