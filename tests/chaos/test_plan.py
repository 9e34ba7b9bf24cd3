"""A plan is pure data: equal seeds give equal bytes, other seeds other draws, nothing is drawn later."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import Refused, UserError
from chaos.plan import Draws, Facts, Plan, make_plan, twin_hash
from chaos.suite import load_text
from injectors.catalogue import CATALOGUE

FACTS = Facts("2.13.0", {}, "package:suites")
TEXT = """\
suite: s
seed: 7
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 200}
  bounds: {detect: 500ms, recover: 2s}
scenarios:
  - name: kills
    faults:
      - fault: process.kill
        id: first
        where: {rank: random}
        when: {step: [5, 9], phase: random}
        repeat: {count: 20, every: 5}
      - fault: process.stop
        where: {rank: other}
        when: {after_fault: first, after_s: [1ms, 180ms]}
        for: 300ms
        repeat: {count: 20}
  - name: in_transfer
    faults:
      - fault: process.kill
        where: {role: transfer_source}
        when: {phase: transfer}
        repeat: {count: 2}
  - name: command
    target: {kind: command, argv: [torchrun, x.py]}
    expect: {verdict: VIOLATED, invariant: replicas_agree}
"""


def plan(seed: int | None = None, text: str = TEXT, only: str | None = None, repeat: int = 1) -> Plan:
    return make_plan(load_text(text, "s.yaml", CATALOGUE), seed, FACTS, CATALOGUE, only=only, repeat=repeat)


def test_equal_seeds_give_equal_bytes() -> None:
    assert plan(3).to_json() == plan(3).to_json()
    assert plan(3).hash == plan(3).hash


def test_another_seed_gives_another_schedule() -> None:
    assert plan(3).hash != plan(4).hash
    assert plan().seed == 7


def test_the_canonical_json_is_fixed() -> None:
    # If this changes, plans of earlier versions no longer reproduce: raise the plan's version.
    drawn = [plan(1).scenarios[0].faults[index].where["rank"] for index in range(8)]
    assert drawn == [Draws(1, "kills", 0, n).number(0, 3, "rank") for n in range(8)]
    assert Draws(1, "a").number(0, 999, "b") == 921


def test_a_stored_plan_is_complete() -> None:
    made = plan(3)
    again = Plan.from_dict(json.loads(made.to_json()))
    assert again.to_json() == made.to_json()
    stop = made.scenarios[0].faults[20]
    assert stop.params == {"duration_s": 0.3}


def test_repeat_expands_in_steps_and_pairs_with_the_fault_before() -> None:
    faults = plan(3).scenarios[0].faults
    kills, stops = faults[:20], faults[20:]
    first = kills[0].when["step"]
    assert 5 <= first <= 9
    # Each repetition draws its own step from the range, moved on by 5.
    assert all(5 + 5 * n <= fault.when["step"] <= 9 + 5 * n for n, fault in enumerate(kills))
    assert [fault.when["after_fault"] for fault in stops] == [fault.id for fault in kills]
    assert all(0.001 <= fault.when["after_s"] <= 0.18 for fault in stops)
    assert all(a.where["rank"] != b.where["rank"] for a, b in zip(kills, stops, strict=True))
    assert len({fault.id for fault in faults}) == 40


def test_phases_of_a_recovery_become_events_and_repeat_by_occurrence() -> None:
    first, second = plan(3).scenarios[1].faults
    assert first.when == {"event": "recovery.transfer"}
    assert second.when == {"event": "recovery.transfer", "occurrence": 2}


def test_recoveries_are_counted_where_the_runtime_is_ours() -> None:
    kills, transfer, command = plan(3).scenarios
    assert (kills.recoveries, transfer.recoveries, command.recoveries) == (40, 2, None)


def test_scenarios_do_not_disturb_each_other() -> None:
    alone = plan(3, only="in_transfer")
    assert alone.scenarios[0] == plan(3).scenarios[1]
    without = TEXT.replace("  - name: command\n", "  - name: renamed\n")
    assert plan(3, without).scenarios[0] == plan(3).scenarios[0]


def test_repeating_a_run_draws_anew_for_one_twin() -> None:
    made = plan(3, only="kills", repeat=3)
    assert [scenario.name for scenario in made.scenarios] == ["kills.1", "kills.2", "kills.3"]
    assert len({json.dumps(scenario.to_dict()["faults"]) for scenario in made.scenarios}) == 3
    assert len({scenario.twin for scenario in made.scenarios}) == 1


def test_only_that_matches_nothing() -> None:
    with pytest.raises(UserError, match="no scenario matches 'x'"):
        plan(3, only="x")


@pytest.mark.parametrize("target", ["world: 0", "steps: 0", "kind: command, argv: []"])
def test_an_empty_target_is_refused(target: str) -> None:
    text = f"""\
suite: s
defaults:
  target: {{kind: recovery, workload: tiny_gpt, world: 4, steps: 30}}
scenarios:
  - name: a
    target: {{{target}}}
"""
    with pytest.raises(Refused) as caught:
        plan(1, text)
    assert caught.value.exit_code == 4


def test_a_twin_is_what_is_trained_and_not_how_it_is_guarded() -> None:
    target = {"kind": "recovery", "workload": "tiny_gpt", "world": 4, "steps": 30}
    same = twin_hash({**target, "spares": 2}, 1, FACTS)
    assert twin_hash(target, 1, FACTS) == same
    assert twin_hash({**target, "steps": 31}, 1, FACTS) != same
    assert twin_hash(target, 2, FACTS) != same
    assert twin_hash(target, 1, Facts("2.14", {}, "x")) != same


@given(st.integers(0, 2**32), st.text(max_size=8))
def test_draws_are_within_their_range(seed: int, name: str) -> None:
    assert 3 <= Draws(seed, name).number(3, 5) <= 5


def test_draws_are_even() -> None:
    counts = Counter(Draws(1, n).number(0, 3) for n in range(4000))
    assert all(900 < counts[value] < 1100 for value in range(4))


def test_a_plan_of_another_version_is_refused() -> None:
    with pytest.raises(UserError, match="not a plan of version 1"):
        Plan.from_dict({**json.loads(plan(3).to_json()), "version": 9})
    with pytest.raises(UserError, match="damaged"):
        Plan.from_dict({"version": 1, "scenarios": [{"name": "a"}]})


NODES = """\
suite: s
seed: 7
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 6, steps: 200, cluster: {kind: netns, nodes: 3}}
scenarios:
  - name: nodes
    faults:
      - {fault: node.kill, where: {node: random}, when: {step: 5}, repeat: {count: 30, every: 5}}
      - {fault: node.return, where: {node: other}, when: {step: 7}, repeat: {count: 30, every: 5}}
      - {fault: process.kill, where: {rank: 5}, when: {step: 9}}
      - {fault: node.kill, where: {node: other}, when: {step: 11}, repeat: {count: 30, every: 5}}
"""


def test_nodes_are_drawn_and_other_is_not_the_node_before() -> None:
    (scenario,) = plan(text=NODES).scenarios
    killed, returned, after_rank = (scenario.faults[a:b] for a, b in ((0, 30), (30, 60), (61, 91)))
    assert {fault.where["node"] for fault in killed} == {0, 1, 2}
    assert all(k.where != r.where for k, r in zip(killed, returned, strict=True))
    # Rank 5 of six on three nodes is on the last one.
    assert {fault.where["node"] for fault in after_rank} == {0, 1}
    assert scenario.target["cluster"] == {"kind": "netns", "nodes": 3}


def test_another_cluster_is_another_twin() -> None:
    here, there = (plan(text=NODES.replace("netns", kind)).scenarios[0].twin for kind in ("netns", "docker"))
    assert here != there
