"""`node.preempt`: notice, grace, end; whoever ends in time loses the node at once."""

from __future__ import annotations

import time

import pytest

from injectors.fault import FaultError
from injectors.node import NodePreempt
from tests.injectors.node.conftest import Nodes


@pytest.mark.slow
def test_a_launcher_that_heeds_the_notice_is_not_kept_waiting(nodes: Nodes) -> None:
    nodes.start(1)
    fault, place = NodePreempt(grace_s=60.0), nodes.place(1)
    fired = fault.inject(place, None)
    assert fired.proven
    assert "SIGTERM" in fired.what
    began = time.monotonic()
    done = fault.follow(place, fired)
    assert time.monotonic() - began < 30
    assert done.data["left"] == ["node1 ended by itself"]
    assert fault.verify(place, done).proven
    assert nodes.log(1).read_text() == "ready\ntold 15\n"


@pytest.mark.slow
def test_a_launcher_that_goes_on_is_ended_with_its_node(nodes: Nodes) -> None:
    nodes.start(1, "rude")
    fault, place = NodePreempt(signal="SIGUSR1", grace_s=0.3), nodes.place(1)
    fired = fault.inject(place, None)
    began = time.monotonic()
    done = fault.follow(place, fired)
    assert time.monotonic() - began >= 0.3
    assert done.data["left"] == ["node1 used up its grace"]
    assert fault.verify(place, done).proven
    assert nodes.log(1).read_text() == "ready\ntold 10\n"


@pytest.mark.slow
def test_a_node_without_a_launcher_can_get_no_notice(nodes: Nodes) -> None:
    fault = NodePreempt()
    fired = fault.inject(nodes.place(2), None)
    assert not fired.proven
    assert "no node that is meant has a launcher" in fired.what
    assert not fault.inject(nodes.place(), None).proven
    assert not fault.verify(nodes.place(2), fired).proven


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(FaultError, match="not known"):
        NodePreempt(signal="SIGKILL")
    with pytest.raises(FaultError, match="out of range"):
        NodePreempt(grace_s=-1.0)
