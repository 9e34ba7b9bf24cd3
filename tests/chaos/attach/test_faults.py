"""What a user asks for becomes a plan, or every mistake in it is said at once."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.attach.faults import Asked, Entries, Site, armable, of_text, of_words, plan_of
from chaos.attach.job import find
from chaos.errors import Exit, Refused, UserError
from chaos.plan import Facts, Plan
from injectors.catalogue import CATALOGUE
from tests.chaos.attach.tables import SHELL, process, rank, table, torchrun
from tests.docs.blocks import Block, blocks

FACTS = Facts("2.13", {}, "/")
JOB = find(table(*SHELL, *torchrun()), 10, 0)
PART = find(table(*SHELL, process(10, 2, "torchrun"), rank(11, 10, 2, 4), rank(12, 10, 3, 4)), 10, 0)
SITE = Site(JOB, 0, "all ranks share one network", 600.0, 1.0)


def planned(entries: Entries, site: Site = SITE, seed: int = 0) -> Plan:
    return plan_of(entries, site, seed, FACTS, CATALOGUE)


def words(*names: str, **options: Any) -> Entries:
    return of_words(Asked(names, **options), CATALOGUE)


def said(entries: Entries, site: Site = SITE) -> str:
    with pytest.raises(UserError) as error:
        planned(entries, site)
    assert error.value.exit_code == Exit.USAGE
    return str(error.value)


def refusal(entries: Entries, site: Site = SITE) -> str:
    with pytest.raises(Refused) as error:
        planned(entries, site)
    return str(error.value)


# -- what becomes a plan


def test_a_command_line_becomes_a_plan_for_the_job() -> None:
    plan = planned(words("process.stop", rank="1", for_="3s", wait="500ms"))
    (scenario,) = plan.scenarios
    (fault,) = scenario.faults
    assert (fault.name, fault.where, fault.when, fault.duration_s) == (
        "process.stop", {"rank": 1}, {"after_s": 0.5}, 3.0,
    )  # fmt: skip
    assert scenario.target == {"kind": "attached", "world": 2, "pids": [[10, 1000]], "settle_s": 1.0}
    assert scenario.bounds["run_s"] == 600.0
    assert Plan.from_dict(plan.to_dict()) == plan


def test_options_are_for_each_fault_that_knows_them() -> None:
    plan = planned(words("process.term", "host.cpu_throttle", rank="0", for_="2s", params=("share=0.5",)))
    term, throttle = plan.scenarios[0].faults
    assert term.duration_s is None
    assert (throttle.duration_s, throttle.params["share"]) == (2.0, 0.5)


def test_a_random_rank_is_drawn_from_the_seed() -> None:
    drawn = [planned(words("process.kill", rank="random"), seed=n).scenarios[0].faults[0] for n in range(20)]
    again = planned(words("process.kill", rank="random"), seed=3).scenarios[0].faults[0]
    assert {fault.where["rank"] for fault in drawn} == {0, 1}
    assert again == drawn[3]


def test_a_file_has_entries_as_a_suite_has_them() -> None:
    text = (
        "faults:\n"
        "  - {id: first, fault: process.stop, where: {rank: 1}, for: 1s}\n"
        "  - {fault: process.kill, where: {role: lowest_live}, when: {after_fault: first, after_s: 2s}}\n"
    )
    stop, kill = planned(of_text(text, "mine.yaml")).scenarios[0].faults
    assert (stop.when, stop.duration_s) == ({"after_s": 0.0}, 1.0)
    assert (kill.where, kill.when) == ({"role": "lowest_live"}, {"after_fault": "f1", "after_s": 2.0})


@pytest.mark.parametrize("block", [b for b in blocks("yaml") if b.page == "docs/attach.md"])
def test_the_file_that_the_documentation_shows_is_one(block: Block) -> None:
    assert len(planned(of_text(block.text, block.where)).scenarios[0].faults) == 3


def test_faults_of_nodes_are_for_a_job_that_has_nodes() -> None:
    plan = planned(words("net.partition", node="1", for_="2s"), Site(JOB, 2, "", 600.0, 1.0))
    assert plan.scenarios[0].faults[0].where == {"node": 1}


# -- what does not


def test_every_mistake_of_a_command_line_is_said_at_once() -> None:
    assert said(words("proces.stop", "process.kill", rank="7", for_="3s", params=("share=2",))) == (
        "--fault proces.stop: fault: unknown fault 'proces.stop'\n"
        "  mend: did you mean 'process.stop'?\n"
        "--fault proces.stop: where.rank: rank 7 is not in a world of 2\n"
        "  mend: use a rank from 0 to 1\n"
        "--fault process.kill: for: process.kill happens at once and has no duration\n"
        "  mend: remove `for:`\n"
        "--fault process.kill: where.rank: rank 7 is not in a world of 2\n"
        "  mend: use a rank from 0 to 1\n"
        "--fault process.kill: with.share: process.kill has no parameter 'share'\n"
        "  mend: it has no parameters"
    )


def test_every_mistake_of_a_file_is_said_with_its_line() -> None:
    text = (
        "faults:\n"
        "  - fault: process.stop\n"
        "    where: {rank: 1}\n"
        "    for: 3\n"
        "  - fault: process.stop\n"
        "    when: {step: 4}\n"
    )
    assert said(of_text(text, "mine.yaml")) == (
        "mine.yaml:4: faults[0].for: 3 is not a duration\n"
        "  mend: write a number and a unit: 500ms, 2s, 1.5m or 1h\n"
        "mine.yaml:5: faults[1]: on which rank? 0, 1 are here\n"
        "  mend: where: {rank: 1}\n"
        "mine.yaml:6: faults[1].when.step: a running job shows no step: nothing of the tool is in it\n"
        "  mend: place it by time: when: {after_s: 5s}"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("faults: [", "mine.yaml:1: not valid YAML"),
        ("scenarios: []", "mine.yaml: not a list of faults\n  mend: write `faults:`"),
        ("faults: 3", "mine.yaml:1: faults: expected a list, got 3"),
        ("faults: [3]", r"mine.yaml:1: faults[0]: expected a mapping"),
        ("faults: []", "no fault is asked for"),
    ],
)
def test_a_file_that_is_none_is_said_to_be_none(text: str, expected: str) -> None:
    with pytest.raises(UserError) as error:
        planned(of_text(text, "mine.yaml"))
    assert str(error.value).startswith(expected)


def test_a_rank_must_be_named() -> None:
    assert said(words("process.kill")) == (
        "--fault process.kill: on which rank? 0, 1 are here\n  mend: --rank N, or --rank random"
    )


def test_ranks_on_other_machines_are_out_of_reach() -> None:
    site = Site(PART, 0, "", 600.0, 1.0)
    assert "rank 0 has no process on this machine\n  mend: one of 2, 3" in said(
        words("process.kill", rank="0"), site
    )
    assert "'random' may be a rank on another machine\n  mend: name one of 2, 3" in said(
        words("process.kill", rank="random"), site
    )
    assert planned(words("process.kill", rank="3"), site).scenarios[0].faults[0].where == {"rank": 3}


def test_a_role_that_only_events_show_is_refused() -> None:
    text = "faults: [{fault: process.kill, where: {role: transfer_source}}]"
    assert "does not show who is transfer_source\n  mend: name a rank" in said(of_text(text, "mine.yaml"))


def test_a_parameter_is_a_name_and_a_value() -> None:
    with pytest.raises(UserError, match="--param share: no `=` in it"):
        words("host.cpu_throttle", params=("share",))


def test_no_fault_outlasts_the_session() -> None:
    assert said(words("process.stop", rank="1", for_="9m", wait="2m")) == (
        "f1 (process.stop) would end after 11m, and the session ends after 10m\n"
        "  mend: a larger --within, or a shorter --for or --wait"
    )
    # One without a duration is taken back after ten seconds.
    short = Site(JOB, 0, "", 5.0, 1.0)
    assert "would end after 10s, and the session ends after 5s" in said(
        words("process.stop", rank="1"), short
    )


# -- what a running job can not have


def test_a_fault_that_needs_the_agent_is_refused_with_those_that_do_not() -> None:
    assert refusal(words("process.exception", rank="1")) == (
        "process.exception can't be armed on a running job: it takes the agent inside the job's processes, "
        "which is there from their start or never\n"
        f"  mend: take one of {', '.join(armable(CATALOGUE, nodes=False))}"
    )


def test_faults_of_nodes_are_refused_where_the_network_is_everybodys() -> None:
    assert "net.delay acts on nodes and what is between them: all ranks share one network" in refusal(
        words("net.delay", "node.kill", rank="1")
    )


def test_a_mistake_and_a_refusal_are_said_together() -> None:
    text = said(words("process.exception", "process.stop", rank="9"))
    assert "rank 9 is not in a world of 2" in text
    assert "process.exception can't be armed on a running job" in text


def test_every_fault_inside_a_process_says_that_it_needs_the_agent() -> None:
    assert [name for name, kind in CATALOGUE.items() if kind.inside and not kind.needs_run] == []


def test_what_can_be_armed() -> None:
    shared, nodes = armable(CATALOGUE, nodes=False), armable(CATALOGUE, nodes=True)
    assert {"process.kill", "process.stop", "process.term", "host.cpu_throttle"} <= set(shared)
    assert {"store.kill", "store.stop", "store.delay", "data.worker_kill"} <= set(shared)
    assert {CATALOGUE[name].aims_at for name in set(nodes) - set(shared)} == {"nodes"}
    assert not {"node.return", "store.stale_key", "storage.bitflip", "process.exception"} & set(nodes)
