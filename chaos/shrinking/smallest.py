"""The search that all shrinking here shares: take the first smaller thing that still fails, begin again.
Pure.

The search knows neither what is shrunk nor how it is tried: it hands out candidates and is told of each
whether it failed. So a simulated plan and a plan for real processes are shrunk by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def smallest(
    start: T,
    smaller: Callable[[T], Iterable[T]],
    key: Callable[[T], Hashable] | None = None,
) -> Generator[T, T | None, T]:
    """Hand out candidates; returns the smallest that failed.

    Send None for a candidate that did not fail, and for one that did the candidate itself, or what it
    became (with another seed, say). The driver may stop at any time: what it accepted last is the best so
    far.

    Args:
        start: what fails.
        smaller: things that are one change smaller, the greatest saving first.
        key: what makes a candidate new. One whose key was refused once is not handed out again; without a
            key each is tried again after every success, since another thing may have become possible.
    """
    best = start
    refused: set[Hashable] = set()
    again = True
    while again:
        again = False
        for candidate in smaller(best):
            if key is not None and key(candidate) in refused:
                continue
            accepted = yield candidate
            if accepted is not None:
                best, again = accepted, True
                break
            if key is not None:
                refused.add(key(candidate))
    return best


def driven(
    search: Generator[T, T | None, T], attempt: Callable[[T], T | None], may_go_on: Callable[[], bool]
) -> Iterator[T]:
    """Drive a search; yields each thing that failed, each smaller than the one before.

    Args:
        attempt: tries a candidate; returns what failed, or None.
        may_go_on: asked before each try.
    """
    failed: T | None = None
    while may_go_on():
        try:
            candidate = search.send(failed)
        except StopIteration:
            return
        failed = attempt(candidate)
        if failed is not None:
            yield failed
