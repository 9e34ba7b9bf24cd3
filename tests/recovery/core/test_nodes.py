"""Who must go when nodes can't reach each other, and where a rank is placed."""

from __future__ import annotations

import pytest

from recovery.core.nodes import broken_links, place, to_keep


def test_a_link_is_broken_if_one_end_does_not_reach_the_other() -> None:
    reached = {0: frozenset({1, 2}), 1: frozenset({0}), 2: frozenset({0, 1})}
    assert broken_links(reached) == {(1, 2)}


def test_who_has_not_answered_is_not_judged() -> None:
    assert broken_links({0: frozenset({1}), 1: frozenset({0})}) == set()


def test_the_node_with_most_broken_links_goes_first() -> None:
    assert to_keep({0, 1, 2, 3}, set(), {(1, 2), (1, 3)}) == {0, 2, 3}


def test_of_equals_the_coordinators_node_stays() -> None:
    assert to_keep({0, 2}, set(), {(0, 2)}) == {0}


@pytest.mark.parametrize(
    ("holding", "kept"), [(set(), {0, 1}), ({2}, {0, 2}), ({1, 2}, {0, 1}), ({0, 2}, {0, 1})]
)
def test_the_last_node_with_state_is_not_put_out(holding: set[int], kept: set[int]) -> None:
    assert to_keep({0, 1, 2}, set(), {(1, 2)}, holding) == kept


def test_a_node_on_trial_is_taken_only_if_it_reaches_all_who_stay() -> None:
    assert to_keep({0, 1}, {2, 3}, {(1, 2)}) == {0, 1, 3}
    assert to_keep(set(), {0, 1, 2}, {(1, 2)}) == {0, 1}


@pytest.mark.parametrize(
    ("home", "load", "spares", "limit", "chosen"),
    [
        (1, {0: 0, 1: 2}, {0}, None, (1, False)),
        (1, {0: 0, 1: 2}, {1}, None, (1, True)),
        (1, {0: 3, 2: 1}, set(), None, (2, False)),
        (1, {0: 3, 2: 1}, {0}, None, (0, True)),
        (1, {0: 2, 1: 2}, set(), 2, None),
        (None, {0: 2, 2: 1}, {0}, 2, (2, False)),
        (1, {}, set(), None, None),
    ],
)
def test_a_rank_stays_where_it_was_else_goes_to_a_spare_else_to_the_emptiest(
    home: int | None,
    load: dict[int, int],
    spares: set[int],
    limit: int | None,
    chosen: tuple[int, bool] | None,
) -> None:
    assert place(home, load, spares, limit) == chosen
