"""Cut a state into stripes of equal bytes, one for each rank that holds it."""

from __future__ import annotations

from typing import Any, NamedTuple

SMALLEST_CUT_BYTES = 64 * 1024


class Chunk(NamedTuple):
    """Bytes [start, stop) of one region of a manifest (`tensor` is its number there)."""

    tensor: int
    start: int
    stop: int


def stripes(manifest: dict[str, Any], holders: int) -> list[list[Chunk]]:
    """Cut all regions into `holders` stripes in manifest order.

    Each byte is in exactly one chunk. Cuts inside a region lie on multiples of 64 KiB and leave at least 64
    KiB on each side, so a stripe is off its equal share by less than 128 KiB.

    Raises:
        ValueError: holders is not positive.
    """
    if holders < 1:
        raise ValueError(f"holders is {holders}, it must be at least 1")
    sizes = [int(region["bytes"]) for region in manifest["regions"]]
    total = sum(sizes)
    result: list[list[Chunk]] = [[] for _ in range(holders)]
    holder, done = 0, 0
    for number, size in enumerate(sizes):
        start = 0
        while start < size:
            goal = total * (holder + 1) // holders - done
            stop = size if holder == holders - 1 else _cut(start, size, start + goal)
            if stop > start:
                result[holder].append(Chunk(number, start, stop))
                done += stop - start
                start = stop
            if holder < holders - 1 and (start < size or done >= total * (holder + 1) // holders):
                holder += 1
    return result


def _cut(start: int, size: int, wanted: int) -> int:
    """The allowed cut in [start, size] nearest to `wanted`."""
    inner = round(wanted / SMALLEST_CUT_BYTES) * SMALLEST_CUT_BYTES
    allowed = [start, size]
    if start + SMALLEST_CUT_BYTES <= inner <= size - SMALLEST_CUT_BYTES:
        allowed.append(inner)
    return min(allowed, key=lambda cut: (abs(cut - wanted), cut))
