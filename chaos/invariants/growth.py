"""Growth of a process over generations: a slope that single outliers and restarts can't move."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# More points of one process than this are thinned out: pairs grow with the square.
MAX_POINTS = 200


@dataclass(frozen=True)
class Growth:
    """`slope` per generation, seen over `span` generations (of the longest-lived process)."""

    slope: float
    span: int
    pairs: int


def growth(series: Iterable[Sequence[tuple[int, float]]]) -> Growth:
    """The weighted median of the slopes between any two points of the same process.

    Pooled over processes, because in a run of random kills no process lives long. A pair counts by its
    distance in generations, so that slow leaks (one descriptor every tenth generation) are seen. A
    single outlier, or a level that differs from process to process, does not move it.

    Args:
        series: per process, its (generation, value) points.
    """
    slopes: list[tuple[float, int]] = []
    span = 0
    for points in series:
        kept = points if len(points) <= MAX_POINTS else points[:: len(points) // MAX_POINTS + 1]
        for i, (start, low) in enumerate(kept):
            for end, high in kept[i + 1 :]:
                if end > start:
                    slopes.append(((high - low) / (end - start), end - start))
                    span = max(span, end - start)
    return Growth(_weighted_median(slopes), span, len(slopes))


def _weighted_median(weighted: list[tuple[float, int]]) -> float:
    if not weighted:
        return 0.0
    half = sum(weight for _, weight in weighted) / 2
    passed = 0
    for value, weight in sorted(weighted):
        passed += weight
        if passed >= half:
            return value
    raise AssertionError("the weights add up to more than half of themselves")


def by_process(points: Iterable[tuple[int, int, float]]) -> Mapping[int, list[tuple[int, float]]]:
    """(generation, value) per pid from (pid, generation, value), in order."""
    found: dict[int, list[tuple[int, float]]] = {}
    for pid, generation, value in points:
        found.setdefault(pid, []).append((generation, value))
    return found
