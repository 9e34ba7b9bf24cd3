"""Is a failure of the plan, or of the moment? It counts once it was seen k times in n runs; if not, the plan
is FLAKY, which is neither a pass nor a failure. Pure: the runs are handed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from chaos.testing.result import Result


class Category(StrEnum):
    """What a plan came to."""

    PASS = "PASS"
    FAILED = "FAILED"
    FLAKY = "FLAKY"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Repeats:
    """A failure counts if it is seen `k` times in at most `n` runs."""

    k: int = 2
    n: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise ValueError(f"k={self.k} of n={self.n}: k must be from 1 to n")


@dataclass(frozen=True)
class Judged:
    """A plan after its runs. `result` is the one to look at: the first that failed, or the only one."""

    category: Category
    failures: int
    runs: int
    result: Result

    def __str__(self) -> str:
        return f"{self.failures} of {self.runs} runs failed"


def judge(run: Callable[[], Result], repeats: Repeats) -> Judged:
    """Run a plan as often as it takes to know.

    Args:
        run: runs it once, in fresh processes.
        repeats: when a failure counts.
    """
    first = run()
    if not _failed(first):
        category = Category.INCONCLUSIVE if first.verdict == "INCONCLUSIVE" else Category.PASS
        return Judged(category, 0, 1, first)
    failures, runs = 1, 1
    while failures < repeats.k and failures + repeats.n - runs >= repeats.k:
        failures += _failed(run())
        runs += 1
    category = Category.FAILED if failures >= repeats.k else Category.FLAKY
    return Judged(category, failures, runs, first)


def _failed(result: Result) -> bool:
    return result.verdict in ("VIOLATED", "ERROR")
