"""Progress counters in shared memory."""

from __future__ import annotations

import os

from recovery.shell import page as words
from recovery.shell.page import RING, Page


def test_a_member_is_seen_through_another_mapping() -> None:
    mine = Page(2)
    theirs = Page(2, os.dup(mine.fd))
    mine.slots[1].enter(generation=3, version=7)
    assert mine.slots[1].issue(chain=99) == 1
    seen = theirs.slots[1]
    assert (seen.ints[words.GENERATION], seen.ints[words.VERSION]) == (3, 7)
    assert (seen.ints[words.ISSUED], seen.ints[words.DONE]) == (1, 0)
    assert seen.chain_at(1) == 99
    mine.slots[1].done()
    assert seen.ints[words.DONE] == 1
    assert seen.floats[words.CHANGED_AT] >= seen.floats[words.ISSUED_AT] > 0


def test_the_supervisors_word_is_apart_from_the_members() -> None:
    page = Page(2)
    page.open_generation = 5
    assert page.open_generation == 5
    assert page.slots[1].ints[words.GENERATION] == 0


def test_fingerprints_are_kept_for_a_while_only() -> None:
    slot = Page(1).slots[0]
    slot.enter(1, 0)
    for number in range(1, RING + 3):
        slot.issue(number * 10)
    assert slot.chain_at(RING + 2) == (RING + 2) * 10
    assert slot.chain_at(3) == 30
    assert slot.chain_at(2) is None
    assert slot.chain_at(RING + 3) is None


def test_a_new_generation_starts_counting_again_and_a_new_process_is_cold() -> None:
    slot = Page(1).slots[0]
    slot.enter(1, 0)
    slot.issue(5)
    slot.committed(1, 0.02)
    slot.enter(2, 1)
    assert (slot.ints[words.ISSUED], slot.ints[words.COMMITS]) == (0, 1)
    slot.ints[words.PID] = 1
    slot.enter(3, 1)
    assert slot.ints[words.COMMITS] == 0
