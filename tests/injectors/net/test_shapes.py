from __future__ import annotations

import pytest

from injectors.fault import FaultError
from injectors.net import shapes

THREE, FIVE = range(3), range(5)


def groups(cut: frozenset[tuple[int, int]], nodes: range) -> set[frozenset[int]]:
    """The parts that are still connected."""
    parts = {node: frozenset(n for n in nodes if n == node or (node, n) not in cut) for node in nodes}
    return set(parts.values())


def test_isolate_cuts_the_aimed_from_the_rest_and_from_no_other() -> None:
    assert shapes.partition("isolate", THREE, [1]) == {(0, 1), (1, 0), (1, 2), (2, 1)}
    assert groups(shapes.partition("isolate", FIVE, [1, 4]), FIVE) == {
        frozenset({1, 4}),
        frozenset({0, 2, 3}),
    }


@pytest.mark.parametrize(
    ("shape", "nodes", "aimed", "side"),
    [
        ("minority", THREE, [0], {0}),
        ("majority", THREE, [0], {0, 1}),
        ("minority", FIVE, [4], {4, 0}),
        ("majority", FIVE, [4], {4, 0, 1}),
        ("majority", FIVE, [3, 1], {3, 1, 4}),
        # Of four nodes one is the minority: two and two would be none.
        ("minority", range(4), [2], {2}),
        ("majority", range(4), [2], {2, 3, 0}),
    ],
)
def test_the_aimed_nodes_are_in_the_part_that_is_named(
    shape: str, nodes: range, aimed: list[int], side: set[int]
) -> None:
    rest = frozenset(set(nodes) - side)
    assert groups(shapes.partition(shape, nodes, aimed), nodes) == {frozenset(side), rest}


def test_a_ring_leaves_everyone_its_two_neighbours() -> None:
    cut = shapes.partition("ring", FIVE, [])
    for node in FIVE:
        assert {n for n in FIVE if n != node and (node, n) not in cut} == {(node + 1) % 5, (node - 1) % 5}
    # Of three nodes each is everyone's neighbour.
    assert shapes.partition("ring", THREE, []) == frozenset()


def test_a_bridge_reaches_both_halves() -> None:
    cut = shapes.partition("bridge", FIVE, [2])
    assert not [pair for pair in cut if 2 in pair]
    assert cut == shapes.between([0, 1], [3, 4])


def test_pairs_are_cut_both_ways() -> None:
    assert shapes.partition("pairs", THREE, [], "0-1, 2-1") == {(0, 1), (1, 0), (1, 2), (2, 1)}


@pytest.mark.parametrize(
    ("shape", "aimed", "pairs"),
    [
        ("isolate", [], ""),
        ("isolate", [0, 1, 2], ""),
        ("minority", [], ""),
        ("pairs", [1], ""),
        ("bridge", [], ""),
    ],
)
def test_aimed_at_nothing_cuts_nothing(shape: str, aimed: list[int], pairs: str) -> None:
    assert shapes.partition(shape, THREE, aimed, pairs) == frozenset()


@pytest.mark.parametrize(
    ("shape", "nodes", "aimed", "pairs", "words"),
    [
        ("minority", range(2), [0], "", "2 nodes have no minority"),
        ("minority", THREE, [0, 1], "", "2 aimed nodes do not fit into the minority of 3"),
        ("bridge", FIVE, [0, 1], "", "a bridge is one node"),
        ("pairs", THREE, [], "0-3", "names no two nodes"),
        ("pairs", THREE, [], "1-1", "names no two nodes"),
        ("pairs", THREE, [], "0>1", "is no pair"),
        ("star", THREE, [], "", "shape='star' is not known"),
    ],
)
def test_what_makes_no_sense_is_refused(
    shape: str, nodes: range, aimed: list[int], pairs: str, words: str
) -> None:
    with pytest.raises(FaultError, match=words):
        shapes.partition(shape, nodes, aimed, pairs)


def test_ways_of_one_direction() -> None:
    assert shapes.parse("0>1,2>1", ">", THREE) == {(0, 1), (2, 1)}
    assert shapes.outwards(THREE, [1]) == {(1, 0), (1, 2)}
