"""Who no longer hears whom: the shapes of partitions, as sets of directed pairs (sender, receiver). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from injectors.fault import FaultError

Pair = tuple[int, int]
SHAPES = ("isolate", "majority", "minority", "ring", "bridge", "pairs")


def both(pairs: Iterable[Pair]) -> frozenset[Pair]:
    """The same pairs in both directions."""
    return frozenset(pair for a, b in pairs for pair in ((a, b), (b, a)))


def between(left: Iterable[int], right: Iterable[int]) -> frozenset[Pair]:
    """Everyone of one side against everyone of the other, both directions."""
    others = list(right)
    return both((a, b) for a in left for b in others if a != b)


def partition(shape: str, nodes: Sequence[int], aimed: Sequence[int], pairs: str = "") -> frozenset[Pair]:
    """The directed pairs that a partition cuts; empty where it cuts nothing.

    Args:
        shape: one of `SHAPES`.
        nodes: every node, in order.
        aimed: the nodes that are meant.
        pairs: shape `pairs`: `0-1,0-2`.

    Raises:
        FaultError: the shape makes no sense with these nodes.
    """
    match shape:
        case "isolate":
            return between(aimed, set(nodes) - set(aimed))
        case "majority" | "minority":
            side = _side(shape, nodes, aimed)
            return between(side, set(nodes) - set(side))
        case "ring":
            return _ring(nodes)
        case "bridge":
            return _bridge(nodes, aimed)
        case "pairs":
            return both(parse(pairs, "-", nodes))
    raise FaultError(f"net.partition: shape={shape!r} is not known\n  mend: one of {', '.join(SHAPES)}")


def _side(shape: str, nodes: Sequence[int], aimed: Sequence[int]) -> list[int]:
    """The aimed nodes' side: the larger or the smaller part, filled up with the nodes that follow them."""
    if not aimed:
        return []
    smaller = (len(nodes) - 1) // 2
    size = smaller if shape == "minority" else len(nodes) - smaller
    if not smaller:
        raise FaultError(f"net.partition: {len(nodes)} nodes have no minority\n  mend: 3 nodes or more")
    if len(aimed) > size:
        raise FaultError(
            f"net.partition: {len(aimed)} aimed nodes do not fit into the {shape} of {len(nodes)}, which is "
            f"{size}\n  mend: aim at {size} or fewer"
        )
    first = nodes.index(aimed[0])
    following = [*nodes[first:], *nodes[:first]]
    return [*aimed, *(node for node in following if node not in aimed)][:size]


def _ring(nodes: Sequence[int]) -> frozenset[Pair]:
    count = len(nodes)
    far = ((i, j) for i in range(count) for j in range(count) if (i - j) % count not in (0, 1, count - 1))
    return frozenset((nodes[i], nodes[j]) for i, j in far)


def _bridge(nodes: Sequence[int], aimed: Sequence[int]) -> frozenset[Pair]:
    if not aimed:
        return frozenset()
    if len(aimed) != 1:
        raise FaultError(f"net.partition: a bridge is one node, {len(aimed)} are aimed at")
    rest = [node for node in nodes if node not in aimed]
    half = len(rest) // 2
    return between(rest[:half], rest[half:])


def parse(text: str, mark: str, nodes: Sequence[int]) -> frozenset[Pair]:
    """`0-1,0-2` or, with the mark `>`, `0>1` as pairs.

    Raises:
        FaultError: not written like that, or no such node.
    """
    found = set()
    for word in filter(None, (word.strip() for word in text.split(","))):
        ends = word.split(mark)
        if len(ends) != 2 or not all(end.strip().isdigit() for end in ends):
            raise FaultError(
                f"pairs={text!r}: {word!r} is no pair\n  mend: write them like 0{mark}1,0{mark}2"
            )
        pair = int(ends[0]), int(ends[1])
        if pair[0] == pair[1] or not set(pair) <= set(nodes):
            raise FaultError(f"pairs={text!r}: {word!r} names no two nodes of {list(nodes)}")
        found.add(pair)
    return frozenset(found)


def outwards(nodes: Iterable[int], aimed: Sequence[int]) -> frozenset[Pair]:
    """From each aimed node to every node that is not aimed at."""
    rest = set(nodes) - set(aimed)
    return frozenset((a, b) for a in aimed for b in rest)
