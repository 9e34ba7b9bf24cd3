"""Pids in a history: each process by one number, whichever node and namespace it was in."""

from __future__ import annotations

from typing import Any

from chaos.runner.naming import UNSEEN, Names


def event(pid: int, node: int | None, source: str = "recovery", **fields: Any) -> dict[str, Any]:
    name = fields.pop("event", "step.commit")
    return {
        "event": name,
        "pid": pid,
        "source": source,
        **({} if node is None else {"node": node}),
        **fields,
    }


def test_the_same_pid_on_two_nodes_is_two_processes() -> None:
    names = Names({(0, 7, 100): 5001, (1, 7, 100): 5002}, own_pids=True)
    for node, pid in ((0, 5001), (1, 5002)):
        names.renamed(event(7, node, event="worker.start", start_ticks=100, rank=node))
        assert names.renamed(event(7, node, rank=node))["pid"] == pid


def test_a_pid_that_a_node_gives_out_again_is_another_process() -> None:
    names = Names({(0, 7, 100): 5001, (0, 7, 900): 6001}, own_pids=True)
    assert names.renamed(event(7, 0, event="worker.start", start_ticks=100))["pid"] == 5001
    assert names.renamed(event(7, 0))["pid"] == 5001
    assert names.renamed(event(7, 0, event="worker.start", start_ticks=900))["pid"] == 6001
    assert names.renamed(event(7, 0))["pid"] == 6001


def test_a_coordinator_speaks_of_processes_on_other_nodes() -> None:
    names = Names({(0, 9, 100): 5001, (1, 9, 200): 5002}, own_pids=True)
    names.renamed(event(9, 0, event="worker.start", start_ticks=100, rank=0))
    names.renamed(event(9, 1, event="worker.start", start_ticks=200, rank=1))
    opened = names.renamed(
        event(3, 0, event="generation.open", members=[{"rank": 0, "pid": 9}, {"rank": 1, "pid": 9}])
    )
    assert [member["pid"] for member in opened["members"]] == [5001, 5002]
    assert names.renamed(event(9, 0, event="recovery.detect", rank=1))["pid"] == 5002


def test_a_process_that_nobody_saw_is_at_least_no_other_one() -> None:
    names = Names({}, own_pids=True)
    first, again, other = (names.renamed(event(7, node))["pid"] for node in (0, 0, 1))
    assert first == again
    assert first != other
    assert min(first, other) > UNSEEN


def test_without_pids_of_their_own_only_agents_are_translated() -> None:
    names = Names({(None, 5, 9): 5005})
    assert names.renamed(event(5, None, "agent")) == {
        "event": "step.commit",
        "pid": 5005,
        "source": "agent",
        "ns_pid": 5,
    }
    for unchanged in (event(5, None), event(6, None, "agent"), event(5, None, "engine"), {"event": "x"}):
        assert names.renamed(unchanged) is unchanged
