"""A member's machine, driven by hand: no process, no clock."""

from __future__ import annotations

import pytest

from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.errors import ProtocolError
from recovery.core.member import Member, Stage


def opening(
    generation: int = 1,
    *,
    version: int = 0,
    holders: tuple[int, ...] = (0,),
    receivers: tuple[int, ...] = (),
    procs: tuple[int, ...] = (11, 12, 13),
) -> m.Open:
    members = tuple(m.Member(rank, proc) for rank, proc in enumerate(procs))
    return m.Open(generation, members, version, "d", holders, receivers, version == 0, "start")


def joined(rank: int = 1, **more: object) -> Member:
    """A member between two steps of generation 1."""
    member = Member(rank, 11 + rank)
    member.handle(o.AtRest("d"), 0.0)
    member.handle(opening(), 0.0)
    member.handle(o.Connected(1), 0.0)
    assert member.stage is Stage.IDLE
    return member


def test_a_step_is_committed_and_the_first_one_reported() -> None:
    member = joined()
    assert member.handle(o.Begun(0), 1.0) == []
    assert member.handle(o.Done(0), 1.0) == [o.Commit(1, False), m.Committed(12, 1, 1)]
    member.handle(o.Begun(1), 1.0)
    assert member.handle(o.Done(1), 1.0) == [o.Commit(2, False)]


def test_a_broken_step_is_reported_dropped_and_restored() -> None:
    member = joined()
    member.handle(o.Begun(0), 1.0)
    broken = member.handle(o.Broken(1, "collective_error", "reset"), 1.0)
    assert broken == [m.Failed(12, 1, "collective_error", "reset", None), o.Drop(1), o.Restore()]
    assert member.handle(o.AtRest("d"), 1.0) == [m.Ready(12, 0, "d", False, 1, "collective_error")]
    assert member.handle(o.Broken(1, "collective_error", "again"), 1.0) == []


def test_between_steps_there_is_nothing_to_restore() -> None:
    broken = joined().handle(o.Broken(1, "collective_error", "released"), 1.0)
    assert [type(action) for action in broken] == [m.Failed, o.Drop]


def test_a_step_done_again_says_so() -> None:
    member = joined()
    member.handle(o.Begun(0), 1.0)
    member.handle(o.Done(0), 1.0)
    member.handle(o.Broken(1, "collective_error", "reset"), 1.0)
    member.handle(o.AtRest("d"), 1.0)
    member.handle(opening(2, version=0, receivers=(1,)), 1.0)
    member.handle(o.Connected(2), 1.0)
    member.handle(o.Taken(2, "d", 8), 1.5)
    member.handle(o.Begun(0), 2.0)
    assert member.handle(o.Done(0), 2.0)[0] == o.Commit(1, True)


def test_an_adoption_holds_nothing_until_its_digest_is_the_agreed_one() -> None:
    member = Member(2, 13)
    member.handle(o.AtRest("fresh"), 0.0)
    order = opening(3, version=7, holders=(0, 1), receivers=(2,))
    assert member.handle(order, 1.0) == [o.Enter(3, 0), o.Connect(3)]
    assert member.handle(o.Connected(3), 1.0) == [o.Take(order)]
    assert member.version is None
    wrong = member.handle(o.Taken(3, "torn", 8), 1.2)
    assert wrong[0] == m.Failed(13, 3, "collective_error", "received torn, agreed was d")
    assert member.version is None
    assert member.handle(o.AtRest("torn"), 1.3) == [m.Ready(13, None, "torn", False, 3, "collective_error")]
    member.handle(opening(4, version=7, holders=(0, 1), receivers=(2,)), 2.0)
    member.handle(o.Connected(4), 2.0)
    assert member.handle(o.Taken(4, "d", 8), 2.25) == [m.Formed(13, 4, 0.25, 8)]
    assert member.version == 7


def test_a_holder_gives_before_it_is_formed() -> None:
    member = Member(0, 11)
    member.handle(o.AtRest("d"), 0.0)
    order = opening(1, receivers=(2,))
    member.handle(order, 0.0)
    assert member.handle(o.Connected(1), 0.0) == [o.Give(order)]
    assert member.handle(o.Given(1, 8), 0.5) == [m.Formed(11, 1, 0.5, 0)]


@pytest.mark.parametrize(
    "late",
    [opening(1), opening(2, procs=(11, 99, 13))],
    ids=["of a generation it has joined", "for another process of this rank"],
)
def test_an_order_that_is_not_for_it_is_not_followed(late: m.Open) -> None:
    member = joined()
    member.handle(o.Broken(1, "collective_error", "reset"), 1.0)
    member.handle(o.AtRest("d"), 1.0)
    assert member.handle(late, 1.0) == []
    assert member.stage is Stage.WAITING


def test_an_order_in_the_middle_of_a_generation_is_not_followed() -> None:
    member = joined()
    assert member.handle(opening(2), 1.0) == []
    assert (member.stage, member.generation) == (Stage.IDLE, 1)


def test_what_comes_of_a_generation_that_it_has_left_is_void() -> None:
    member = Member(2, 13)
    member.handle(o.AtRest("d"), 0.0)
    member.handle(opening(1, receivers=(2,)), 0.0)
    member.handle(o.Broken(1, "collective_error", "reset"), 0.0)
    for late in (o.Connected(1), o.Given(1), o.Taken(1, "d")):
        assert member.handle(late, 0.0) == []


def test_who_has_finished_leaves_when_all_may_and_joins_when_one_must_be_healed() -> None:
    member = joined()
    assert member.handle(o.AtRest("d", finished=True), 1.0) == [m.Ready(12, 0, "d", True, 1, None)]
    member.handle(opening(2, receivers=(2,), holders=(0, 1)), 1.0)
    assert member.stage is Stage.CONNECTING
    assert member.handle(m.Leave(), 1.0) == []
    member.handle(o.Connected(2), 1.0)
    member.handle(o.Given(2), 1.0)
    member.handle(o.AtRest("d", finished=True), 1.0)
    assert member.handle(m.Leave(), 1.0) == [o.Exit()]
    assert member.stage is Stage.GONE


def test_the_next_step_must_not_begin_in_a_generation_that_is_over() -> None:
    member = joined()
    assert not member.is_over(1, broken=False)
    assert member.is_over(0, broken=False)
    assert member.is_over(2, broken=False)
    assert member.is_over(1, broken=True)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (o.Begun(3), "step 3 has begun at version 0"),
        (o.Done(0), "is not allowed while idle"),
        (o.AtRest("d"), "is not allowed while idle"),
        (o.Connected(1), "is not allowed while idle"),
    ],
)
def test_what_can_not_happen_raises(event: o.Event, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        joined().handle(event, 1.0)
