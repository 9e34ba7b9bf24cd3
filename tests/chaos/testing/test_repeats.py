"""A failure counts once it was seen k times in n runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.testing.repeats import Category, Repeats, judge
from chaos.testing.result import Result
from tests.chaos.testing.results import result, scenario

LETTERS = {"P": "PASS", "V": "VIOLATED", "E": "ERROR", "I": "INCONCLUSIVE"}


def runs(letters: str) -> tuple[Callable[[], Result], list[str]]:
    left = [*letters]
    return lambda: result(scenario(LETTERS[left.pop(0)])), left


@pytest.mark.parametrize(
    ("letters", "repeats", "category", "told", "used"),
    [
        ("P", Repeats(2, 3), Category.PASS, "0 of 1 runs failed", 1),
        ("I", Repeats(2, 3), Category.INCONCLUSIVE, "0 of 1 runs failed", 1),
        ("VV", Repeats(2, 3), Category.FAILED, "2 of 2 runs failed", 2),
        ("VE", Repeats(2, 3), Category.FAILED, "2 of 2 runs failed", 2),
        ("VPV", Repeats(2, 3), Category.FAILED, "2 of 3 runs failed", 3),
        ("VPP", Repeats(2, 3), Category.FLAKY, "1 of 3 runs failed", 3),
        ("VPPP", Repeats(3, 5), Category.FLAKY, "1 of 4 runs failed", 4),
        ("VI", Repeats(2, 2), Category.FLAKY, "1 of 2 runs failed", 2),
        ("V", Repeats(1, 1), Category.FAILED, "1 of 1 runs failed", 1),
    ],
)
def test_a_plan_is_run_as_often_as_it_takes(
    letters: str, repeats: Repeats, category: Category, told: str, used: int
) -> None:
    run, left = runs(letters)
    found = judge(run, repeats)
    assert (found.category, str(found), len(letters) - len(left)) == (category, told, used)


def test_the_result_to_look_at_is_the_one_that_failed() -> None:
    assert judge(runs("VPP")[0], Repeats(2, 3)).result.verdict == "VIOLATED"


@pytest.mark.parametrize(("k", "n"), [(0, 1), (3, 2)])
def test_numbers_that_make_no_sense_are_refused(k: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"k={k} of n={n}: k must be from 1 to n"):
        Repeats(k, n)
