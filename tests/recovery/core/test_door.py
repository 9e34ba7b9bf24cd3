"""Who gets a session, and when."""

from __future__ import annotations

import pytest

from recovery.core.door import Admitted, Door, Hello, Later, Refused
from recovery.core.nodes import Node, Standing


def node(standing: Standing, session: int = 0, dead_by: float = 5.0) -> Node:
    return Node(1, standing=standing, session=session, dead_by=dead_by)


ABSENT = node(Standing.ABSENT)


def test_whoever_comes_for_an_absent_node_is_let_in_and_no_number_is_given_twice() -> None:
    door = Door("job")
    assert [door.knock(Hello(1, ""), ABSENT, 0.0) for _ in range(2)] == [Admitted(2), Admitted(3)]


@pytest.mark.parametrize("standing", [Standing.TRIAL, Standing.PRESENT])
def test_a_new_supervisor_waits_for_the_lease_of_the_earlier_one(standing: Standing) -> None:
    answer = Door("job").knock(Hello(1, ""), node(standing, 7), 2.0)
    assert answer == Later(3.0, "the lease of an earlier supervisor has not run out")


def test_who_has_ended_everything_of_the_present_session_gets_another_at_once() -> None:
    assert Door("job").knock(Hello(1, "job", former=7), node(Standing.PRESENT, 7), 2.0) == Admitted(2)


def test_a_greeting_that_was_long_under_way_ends_no_later_session() -> None:
    assert isinstance(Door("job").knock(Hello(1, "job", former=6), node(Standing.PRESENT, 7), 2.0), Later)


def test_a_session_is_resumed_by_its_number_while_it_lasts() -> None:
    door = Door("job")
    assert door.knock(Hello(1, "job", resumes=7), node(Standing.PRESENT, 7), 2.0) == Admitted(7, resumed=True)
    over = Later(0.0, "that session is over")
    assert door.knock(Hello(1, "job", resumes=7), node(Standing.PRESENT, 8), 2.0) == over
    assert door.knock(Hello(1, "job", resumes=7), node(Standing.ABSENT, 7), 2.0) == over


@pytest.mark.parametrize(
    "hello", [Hello(1, "first"), Hello(1, "first", resumes=2), Hello(1, "first", former=2)]
)
def test_an_empty_coordinator_refuses_whoever_belongs_to_an_earlier_start(hello: Hello) -> None:
    assert Door("second").knock(hello, ABSENT, 0.0) == Refused("it belongs to an earlier start of this job")
