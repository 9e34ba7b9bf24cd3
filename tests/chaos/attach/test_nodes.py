"""Nodes of a running job are the networks that its ranks are in, unless that is everybody's."""

from __future__ import annotations

import os

from chaos.attach import nodes
from chaos.attach.job import Job, Seen, find
from tests.chaos.attach.tables import SHELL, process, rank, table


def job(*networks: int) -> Job:
    ranks = [rank(11 + n, 10, n, len(networks), net=net) for n, net in enumerate(networks)]
    return find(table(*SHELL, process(10, 2, "torchrun"), *ranks), 10, 0)


def own() -> int:
    return os.stat("/proc/self/ns/net").st_ino


def test_ranks_are_grouped_by_their_network_in_the_order_of_the_lowest() -> None:
    assert nodes.grouped(job(9, 7, 9, 7)) == {9: (0, 2), 7: (1, 3)}


def test_the_network_of_this_machine_makes_no_node() -> None:
    found = nodes.look(job(own(), own()))
    assert (found.nodes, found.node_of(1), found.ranks_on(0)) == ((), 0, [0, 1])
    assert found.why_not.startswith(
        "all ranks share the network of this machine with everything else on it\n"
    )
    assert nodes.look(job(9, own())).why_not.startswith("ranks 1 share the network")


def test_one_node_alone_has_no_one_to_be_cut_off_from() -> None:
    assert nodes.look(job(9, 9)).why_not == nodes.ALONE


def test_a_network_that_can_not_be_entered_is_said_to_be_none() -> None:
    missing = 2**22 + 1
    far = [Seen(missing + n, 10, 1, net=7 + n, env=rank(1, 1, n).env) for n in range(2)]
    found = nodes.look(find(table(*SHELL, process(10, 2, "torchrun"), *far), 10, 0))
    assert found.why_not.startswith("the networks of its nodes can't be entered: ")


def test_addresses_leave_out_the_loopback() -> None:
    told = [
        {"ifname": "lo", "addr_info": [{"family": "inet", "local": "127.0.0.1", "scope": "host"}]},
        {"ifname": "eth0", "addr_info": [{"family": "inet", "local": "10.1.2.3", "scope": "global"}]},
        {"ifname": "down"},
    ]
    assert nodes.addresses(told) == [("eth0", "10.1.2.3")]


def test_only_its_owner_brings_a_node_back() -> None:
    assert nodes.look(job(9, 9)).bring_back(0).proven is False
