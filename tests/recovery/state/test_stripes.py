"""Cutting a state among its holders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.state import Chunk, stripes
from recovery.state.stripes import SMALLEST_CUT_BYTES

SIZES = st.lists(st.one_of(st.integers(1, 200), st.integers(1, 3_000_000)), max_size=30)


def _manifest(sizes: list[int]) -> dict[str, object]:
    return {"regions": [{"bytes": size, "device": "cpu"} for size in sizes]}


@given(sizes=SIZES, holders=st.integers(1, 9))
def test_each_byte_is_in_one_chunk_and_shares_are_fair(sizes: list[int], holders: int) -> None:
    cut = stripes(_manifest(sizes), holders)
    assert len(cut) == holders
    chunks = [chunk for stripe in cut for chunk in stripe]
    at = dict.fromkeys(range(len(sizes)), 0)
    for chunk in chunks:
        assert chunk.start == at[chunk.tensor]
        assert chunk.stop > chunk.start
        at[chunk.tensor] = chunk.stop
    assert list(at.values()) == sizes
    for chunk in chunks:
        whole = chunk.start == 0 and chunk.stop == sizes[chunk.tensor]
        assert whole or chunk.stop - chunk.start >= SMALLEST_CUT_BYTES
        assert chunk.start % SMALLEST_CUT_BYTES == 0
    for stripe in cut:
        size = sum(chunk.stop - chunk.start for chunk in stripe)
        assert abs(size - sum(sizes) / holders) <= 2 * SMALLEST_CUT_BYTES


def test_one_big_tensor_is_shared_and_small_ones_stay_whole() -> None:
    kib = 1024
    assert stripes(_manifest([256 * kib]), 2) == [[Chunk(0, 0, 128 * kib)], [Chunk(0, 128 * kib, 256 * kib)]]
    assert stripes(_manifest([10, 10]), 2) == [[Chunk(0, 0, 10)], [Chunk(1, 0, 10)]]
    assert stripes(_manifest([100 * kib]), 2)[0] in ([], [Chunk(0, 0, 100 * kib)])
    assert stripes(_manifest([]), 3) == [[], [], []]


def test_no_holder_is_an_error() -> None:
    with pytest.raises(ValueError, match="holders is 0"):
        stripes(_manifest([1]), 0)
