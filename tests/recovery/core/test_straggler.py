"""Who holds the others up is named, after more than chance; nobody else is."""

from __future__ import annotations

from recovery.core.blame import Progress
from recovery.core.straggler import ARRIVALS, LATE_S, WINDOW_S, Straggler, Stragglers

STEP_S = 0.04


def seen(issued: dict[int, int], at: float, *, warm: bool = True, busy_until: float = 0.0) -> list[Progress]:
    """Four ranks that entered their last collective at `at`."""
    return [
        Progress(
            rank=rank,
            proc=rank + 1,
            generation=1,
            version=number,
            warm=warm,
            issued=number,
            done=number - 1,
            issued_at=at,
            changed_at=at,
            busy_until=busy_until,
            starved_s=0.0,
            common_chain=1,
        )
        for rank, number in issued.items()
    ]


def late(number: int, rank: int = 2) -> dict[int, int]:
    return {each: number - (each == rank) for each in range(4)}


def looks(
    stragglers: Stragglers, count: int, late_s: float, rank: int = 2, start: float = 0.0
) -> list[Straggler]:
    found = []
    for number in range(1, count + 1):
        now = start + number
        named = stragglers.look(seen(late(number, rank), now - late_s), STEP_S, now)
        found += [named] if named is not None else []
    return found


def test_the_one_who_is_late_again_and_again_is_named() -> None:
    (named,) = looks(Stragglers(), ARRIVALS, 0.2)
    assert (named.rank, named.arrivals) == (2, ARRIVALS)
    assert abs(named.late_s - ARRIVALS * 0.2) < 1e-6


def test_it_is_told_again_only_when_it_has_doubled() -> None:
    assert [named.arrivals for named in looks(Stragglers(), 12, 0.2)] == [3, 6, 12]


def test_once_is_chance() -> None:
    assert not looks(Stragglers(), ARRIVALS - 1, 0.2)


def test_one_long_wait_at_one_collective_is_one_arrival() -> None:
    stragglers = Stragglers()
    waits = [stragglers.look(seen(late(5), 0.0), STEP_S, now) for now in (0.1, 0.2, 0.3, 0.4, 0.5)]
    assert waits == [None] * 5


def test_ordinary_skew_and_less_than_a_step_are_none() -> None:
    assert not looks(Stragglers(), 9, LATE_S / 2)
    slow = Stragglers()
    for number in range(1, 9):
        assert slow.look(seen(late(number), number - 0.2), 0.5, float(number)) is None


def test_arrivals_far_apart_do_not_add_up() -> None:
    stragglers = Stragglers()
    for number in range(1, 6):
        now = number * (WINDOW_S + 1)
        assert stragglers.look(seen(late(number), now - 0.2), STEP_S, now) is None


def test_several_behind_name_nobody() -> None:
    stragglers = Stragglers()
    for number in range(1, 9):
        issued = {0: number, 1: number, 2: number - 1, 3: number - 1}
        assert stragglers.look(seen(issued, number - 0.2), STEP_S, float(number)) is None


def test_who_is_cold_or_busy_is_none() -> None:
    for fields in ({"warm": False}, {"busy_until": 100.0}):
        stragglers = Stragglers()
        for number in range(1, 9):
            members = seen(late(number), number - 0.2, **fields)  # type: ignore[arg-type]
            assert stragglers.look(members, STEP_S, float(number)) is None
