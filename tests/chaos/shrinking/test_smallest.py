from __future__ import annotations

from collections.abc import Iterator

from chaos.shrinking.smallest import driven, smallest


def halves(number: int) -> Iterator[int]:
    """A half, then one less."""
    if number > 1:
        yield number // 2
        yield number - 1


def drive(start: int, limit: int, tries: int = 100) -> tuple[list[int], list[int]]:
    """Shrink a number that fails from `limit` on; what was tried, and what failed."""
    tried: list[int] = []

    def attempt(number: int) -> int | None:
        tried.append(number)
        return number if number >= limit else None

    return tried, list(driven(smallest(start, halves), attempt, lambda: len(tried) < tries))


def test_it_goes_on_from_what_failed_until_nothing_smaller_does() -> None:
    tried, failed = drive(20, 4)
    assert failed == [10, 5, 4]
    assert tried == [10, 5, 2, 4, 2, 3]


def test_stopped_early_it_has_told_the_best_so_far() -> None:
    assert drive(20, 4, tries=2)[1] == [10, 5]
    assert drive(20, 4, tries=0) == ([], [])


def test_what_fails_at_once_and_has_nothing_smaller_is_done() -> None:
    assert drive(1, 0) == ([], [])


def test_a_refused_key_is_not_tried_again_and_without_keys_it_is() -> None:
    tried: list[int] = []

    def attempt(number: int) -> int | None:
        tried.append(number)
        return number if number % 2 == 0 else None

    def smaller(number: int) -> Iterator[int]:
        yield 7
        if number > 4:
            yield number - 2

    assert list(driven(smallest(8, smaller), attempt, lambda: True)) == [6, 4]
    assert tried == [7, 6, 7, 4, 7]
    tried.clear()
    assert list(driven(smallest(8, smaller, lambda one: one), attempt, lambda: True)) == [6, 4]
    assert tried == [7, 6, 4]


def test_a_candidate_may_fail_as_something_else() -> None:
    search = smallest((10, "seed 1"), lambda one: iter([(one[0] - 1, one[1])] if one[0] > 8 else []))
    assert next(search) == (9, "seed 1")
    assert search.send((9, "seed 2")) == (8, "seed 2")
