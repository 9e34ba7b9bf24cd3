"""Real jobs of several nodes on one host: a node is lost, cut off, frozen or restarted, and has a lease."""

from __future__ import annotations

import os
import signal

import pytest

from tests.recovery.jobs import TINY_GPT, Launcher, Outcome
from tests.recovery.nodes import Fleet, node_of, run_fleet

pytestmark = pytest.mark.slow

STEPS = 24
LEASE_S = 1.0
LEASE = ["--lease-s", str(LEASE_S)]


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher) -> Outcome:
    """The same training on one node."""
    outcome = launcher.run(["--nproc-per-node", "4", str(TINY_GPT), "--steps", str(STEPS)])
    assert outcome.code == 0, outcome.stderr
    return outcome


def causes(outcome: Outcome) -> list[str]:
    return [cause["kind"] for done in outcome.of("recovery.done") for cause in done["causes"]]


def test_two_nodes_train_what_one_node_trains(launcher: Launcher, undisturbed: Outcome) -> None:
    outcome, codes = run_fleet(launcher, 2, 2, STEPS)
    assert codes == [0, 0], outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    assert not outcome.of("recovery.done")
    assert [node_of(outcome, rank)[0] for rank in range(4)] == [0, 0, 1, 1]


def test_a_killed_rank_is_replaced_on_its_own_node(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        fleet.signal(3)

    outcome, codes = run_fleet(launcher, 2, 2, STEPS, strike)
    assert codes == [0, 0], outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    assert causes(outcome) == ["crash"]
    assert node_of(outcome, 3) == [1, 1]
    for rank in (0, 1, 2):
        first, *_, last = [e["fds"] for e in outcome.of("generation.formed") if e["rank"] == rank]
        assert last <= first + 3  # some are opened at first use; a generation has dozens


def test_the_ranks_of_a_dead_node_move_when_its_lease_is_over(
    launcher: Launcher, undisturbed: Outcome
) -> None:
    struck: list[float] = []

    def strike(fleet: Fleet) -> None:
        struck.append(fleet.until_commit(5)["t"])
        fleet.jobs[1].kill()

    outcome, codes = run_fleet(launcher, 2, 2, STEPS, strike, options=LEASE)
    assert codes == [0, -signal.SIGKILL], outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    assert causes(outcome).count("node_lost") == 1
    assert [node_of(outcome, rank)[-1] for rank in range(4)] == [0, 0, 0, 0]
    (lost,) = outcome.of("node.lost")
    # Its last beat was granted at most one beat before it died.
    assert lost["t"] >= struck[0] + LEASE_S * 7 / 8 - 0.1
    moved = [
        e for e in outcome.events if e["event"] in ("worker.start", "worker.promoted") and e["node"] == 0
    ]
    assert all(e["t"] >= lost["t"] for e in moved if e.get("rank") in (2, 3))


def test_a_node_that_is_asked_to_end_is_not_waited_for(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        os.kill(fleet.jobs[1].pid, signal.SIGTERM)

    outcome, codes = run_fleet(launcher, 2, 2, STEPS, strike, options=["--lease-s", "60"])
    assert codes == [0, 130], outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    (lost,) = outcome.of("node.lost")
    assert "asked to end" in lost["reason"]


def test_a_node_that_is_cut_off_fences_itself_first_and_is_taken_back(
    launcher: Launcher, undisturbed: Outcome
) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        fleet.cable(1).cut()
        fleet.until(lambda e: e["event"] == "node.lost")
        fleet.cable(1).heal()
        fleet.until(lambda e: e["event"] == "node.returned")

    outcome, codes = run_fleet(launcher, 2, 2, 60, strike, options=LEASE, cabled=(1,))
    assert codes == [0, 0], outcome.stderr
    assert {step: outcome.digests()[step] for step in range(STEPS)} == undisturbed.digests()
    (expired,), (lost,) = outcome.of("lease.expired"), outcome.of("node.lost")
    exits = [e["t"] for e in outcome.of("worker.exit") if e["node"] == 1 and e["t"] <= expired["t"]]
    assert exits
    # Whatever it ran was gone before anyone else could be given its ranks.
    assert max(exits) <= expired["t"] <= lost["t"]
    assert not [e for e in outcome.of("step.commit") if e["node"] == 1 and expired["t"] < e["t"] < lost["t"]]


def test_a_broken_connection_to_the_coordinator_costs_nothing(
    launcher: Launcher, undisturbed: Outcome
) -> None:
    def strike(fleet: Fleet) -> None:
        for step in (5, 9, 13):
            fleet.until_commit(step)
            fleet.cable(1).reset()

    outcome, codes = run_fleet(launcher, 2, 2, STEPS, strike, cabled=(1,))
    assert codes == [0, 0], outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    assert not outcome.of("node.lost")
    assert not outcome.of("recovery.done")


def test_ranks_of_a_node_whose_supervisor_is_frozen_commit_nothing_after_its_lease(
    launcher: Launcher, undisturbed: Outcome
) -> None:
    frozen: list[float] = []

    def strike(fleet: Fleet) -> None:
        frozen.append(fleet.until_commit(5)["t"])
        os.kill(fleet.jobs[1].pid, signal.SIGSTOP)
        fleet.until(lambda e: e["event"] == "node.lost")
        # Its workers are still there: only what they were told of the lease holds them back.
        fleet.until_commit(15)
        os.kill(fleet.jobs[1].pid, signal.SIGCONT)
        fleet.until(lambda e: e["event"] == "node.returned")

    outcome, codes = run_fleet(launcher, 2, 2, 60, strike, options=LEASE, cabled=())
    assert codes == [0, 0], outcome.stderr
    (lost,) = outcome.of("node.lost")
    (returned,) = outcome.of("node.returned")
    late = [e for e in outcome.of("step.commit") if e["node"] == 1 and lost["t"] <= e["t"] <= returned["t"]]
    assert not late
    assert {step: outcome.digests()[step] for step in range(STEPS)} == undisturbed.digests()


def test_a_node_that_comes_to_itself_after_the_job_is_over_ends(launcher: Launcher) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        os.kill(fleet.jobs[1].pid, signal.SIGSTOP)
        fleet.until_end()
        os.kill(fleet.jobs[1].pid, signal.SIGCONT)

    outcome, codes = run_fleet(launcher, 2, 2, STEPS, strike, options=LEASE)
    # It can't know how the job ended, only that nobody is there to ask.
    assert codes == [0, 1], outcome.stderr
    assert "the coordinator has ended" in outcome.stderr


def test_a_node_that_is_started_again_is_taken_back(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        fleet.jobs[2].kill()
        fleet.restart(2)
        fleet.until(lambda e: e["event"] == "node.returned")

    outcome, codes = run_fleet(launcher, 3, 1, 60, strike, options=LEASE)
    assert codes == [0, 0, 0], outcome.stderr
    assert causes(outcome).count("node_lost") == 1
    (lost,) = outcome.of("node.lost")
    assert [e["about"] for e in outcome.of("node.returned")] == [2]
    assert outcome.of("node.returned")[0]["t"] > lost["t"]


def test_without_enough_nodes_nothing_goes_on(launcher: Launcher) -> None:
    def strike(fleet: Fleet) -> None:
        fleet.until_commit(5)
        for node in (1, 2):
            fleet.jobs[node].kill()

    outcome, codes = run_fleet(launcher, 3, 1, 200, strike, options=[*LEASE, "--node-wait-s", "2"])
    assert codes[0] == 1
    (end,) = outcome.of("job.end")
    assert end["reason"] == "too few nodes"
    assert "not there: 1, 2; needed: 2" in end["detail"]
    lost = max(e["t"] for e in outcome.of("node.lost"))
    assert not [e for e in outcome.of("step.commit") if e["t"] > lost]


def test_a_node_without_the_secret_is_refused(launcher: Launcher) -> None:
    options = ["--node-wait-s", "3"]
    outcome, codes = run_fleet(
        launcher, 2, 1, 5, options=options, secret_of=lambda node: f"secret of node {node}, long enough"
    )
    assert codes == [1, 1]
    assert "does not know the job's secret" in outcome.stderr
    assert not outcome.of("worker.start")


def test_a_node_that_was_started_otherwise_is_refused(launcher: Launcher) -> None:
    outcome, codes = run_fleet(
        launcher, 2, 1, 5, options=["--node-wait-s", "3"], node_options={1: ["--seed", "7"]}
    )
    assert codes == [1, 64]
    assert "it was started with seed = 7, the coordinator with 0" in outcome.stderr
