"""Progress counters in shared memory."""

from __future__ import annotations

import os
from typing import Any

from recovery.shell import page as words
from recovery.shell.page import RING, Page, Slot


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


class Busy(list[int]):
    """Words whose member enters its next collective just when its number has been read."""

    slot: Slot
    hurried = False

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        if index == words.ISSUED and not self.hurried:
            self.hurried = True
            self.slot.issue(chain=10 * (value + 1))
        return value


def test_a_sample_taken_while_the_member_enters_a_collective_is_of_one_moment() -> None:
    original = Page(1).slots[0]
    original.enter(1, 0)
    for number in range(1, 4):
        original.issue(chain=10 * number)
    writing = Busy(original.ints)
    writing.slot = Slot(writing, original.floats)  # type: ignore[arg-type]
    copy = Page(1).slots[0]
    copy.put(writing.slot.sample(100.0, 0.0), 100.0)
    assert copy.ints[words.ISSUED] == 3
    assert [copy.chain_at(number) for number in (1, 2, 3)] == [10, 20, 30]
    assert writing.slot.chain_at(4) == 40


def test_a_sample_of_two_generations_is_of_none() -> None:
    original = Page(1).slots[0]
    original.enter(1, 0)
    original.issue(chain=10)

    class Regrouping(list[int]):
        def __getitem__(self, index: Any) -> Any:
            value = super().__getitem__(index)
            if index == words.ISSUED:
                super().__setitem__(words.GENERATION, 2)
            return value

    writing = Slot(Regrouping(original.ints), original.floats)  # type: ignore[arg-type]
    copy = Page(1).slots[0]
    copy.put(writing.sample(100.0, 0.0), 100.0)
    assert copy.ints[words.GENERATION] == 0
