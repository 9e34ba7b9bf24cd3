"""Who is named when a rank ran another sequence of collectives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from recovery.core.blame import SETTLED_S
from recovery.errors import Interrupted
from recovery.shell.membership import Membership
from recovery.shell.page import Page

WORLD, ODD = 4, 2


@pytest.fixture
def members() -> list[Membership]:
    page = Page(WORLD)
    page.open_generation = 1
    made = [Membership(page, rank) for rank in range(WORLD)]
    for member in made:
        member.enter(1, 0)
        member.begin_step(0)
    return made


def run(member: Membership) -> None:
    """One collective, which the odd rank left out: what it enters is the next one."""
    issue(member, "all_reduce 2" if member.rank == ODD else "all_reduce 1")


def issue(member: Membership, what: str) -> None:
    """As a process group does, for a line of the user's: the line is part of the sequence."""
    member.issue(what)


def sealed(member: Membership) -> int | None:
    with pytest.raises(Interrupted, match="ran another sequence of collectives in step 0"):
        member.seal()
    assert member.error_kind == "desync"
    return member.suspect


def test_the_odd_rank_is_named_once_all_have_come(members: list[Membership]) -> None:
    for member in members:
        run(member)
    assert [sealed(member) for member in members] == [ODD] * WORLD


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is slow enough the others come too late, and no one is named."""
    monkeypatch.setattr("recovery.shell.membership.SETTLED_S", 1000 * SETTLED_S)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("rank", [0, ODD])
def test_the_vote_waits_for_ranks_that_are_about_to_come(members: list[Membership], rank: int) -> None:
    """Of two that differ neither is the odd one; the first to compare had come with one other."""
    run(members[0])
    run(members[ODD])

    def come() -> None:
        for member in (members[1], members[3]):
            run(member)

    with once_looked_for(members[1], come):
        assert sealed(members[rank]) == ODD


def test_a_rank_that_never_comes_is_not_waited_for_long(members: list[Membership]) -> None:
    run(members[0])
    run(members[ODD])
    # The other two are stuck before: there is no majority, and the step must not be committed.
    assert sealed(members[0]) is None


@pytest.mark.usefixtures("patient")
def test_the_end_of_the_generation_ends_the_vote(members: list[Membership]) -> None:
    run(members[0])
    run(members[ODD])

    def close() -> None:
        members[0].page.open_generation = 2

    with once_looked_for(members[1], close):
        assert sealed(members[0]) is None


@contextmanager
def once_looked_for(member: Membership, act: Callable[[], None]) -> Iterator[None]:
    """Act in another thread, as soon as someone has looked how far this member has come."""
    looked, look = threading.Event(), member.slot.chain_at

    def telling(number: int) -> int | None:
        found = look(number)
        looked.set()
        return found

    def wait_and_act() -> None:
        assert looked.wait(10)
        act()

    member.slot.chain_at = telling  # type: ignore[method-assign]
    thread = threading.Thread(target=wait_and_act)
    thread.start()
    yield
    thread.join()
