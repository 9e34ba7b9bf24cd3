"""Real jobs of four ranks, struck from outside: whatever is killed, the state is the undisturbed run's."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from tests.recovery.jobs import ROOT, TINY_GPT, Launcher, Outcome, Running

pytestmark = pytest.mark.slow

STEPS = 16
SIZED = ROOT / "tests/benchmarks/size_target.py"
LARGE_MB = 400
ARGS = ["--nproc-per-node", "4", str(TINY_GPT), "--steps", str(STEPS)]


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher) -> Outcome:
    outcome = launcher.run(ARGS)
    assert outcome.code == 0, outcome.stderr
    assert all(len(digests) == 1 for digests in outcome.digests().values())
    assert len(outcome.digests()) == STEPS
    assert not outcome.of("recovery.done")
    return outcome


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def assert_healed(outcome: Outcome, undisturbed: Outcome, causes: list[tuple[int, str]]) -> None:
    assert outcome.code == 0, outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    named = [(c["rank"], c["kind"]) for done in outcome.of("recovery.done") for c in done["causes"]]
    assert sorted(named) == sorted(causes)


@pytest.mark.parametrize("rank", [0, 3])
def test_a_killed_rank_is_replaced(launcher: Launcher, undisturbed: Outcome, rank: int) -> None:
    before: dict[int, int] = {}

    def strike(running: Running) -> None:
        running.until_commit(5)
        before.update({r: running.pid(r) for r in range(4)})
        running.signal(rank)

    outcome = launcher.run(ARGS, strike)
    assert_healed(outcome, undisturbed, [(rank, "crash")])
    after = {member["rank"]: member["pid"] for member in outcome.of("generation.open")[-1]["members"]}
    assert {r for r in range(4) if before[r] != after[r]} == {rank}
    (done,) = outcome.of("recovery.done")
    phases = ("detect_s", "fence_s", "regroup_s", "transfer_s", "resume_s")
    assert sum(done[phase] for phase in phases) == pytest.approx(done["total_s"], abs=1e-5)
    assert done["bytes"] > 0


def test_a_frozen_rank_is_replaced_and_fenced(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(1, signal.SIGSTOP)

    outcome = launcher.run(ARGS, strike)
    assert_healed(outcome, undisturbed, [(1, "stopped")])
    (fence,) = outcome.of("fence")
    promoted = outcome.of("worker.promoted")[0]
    exited = next(e for e in outcome.of("worker.exit") if e["pid"] == fence["pid"])
    assert fence["t"] < exited["t"] < promoted["t"]


def test_two_ranks_at_once(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(0)
        running.signal(2)

    assert_healed(launcher.run(ARGS, strike), undisturbed, [(0, "crash"), (2, "crash")])


@pytest.mark.parametrize("moment", ["worker.promoted", "generation.open", "state.send", "state.receive"])
def test_the_replacement_dies_during_the_recovery(
    launcher: Launcher, undisturbed: Outcome, moment: str
) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(2)
        running.until(lambda e: e["event"] == moment and e.get("generation", 2) == 2)
        running.signal(2)

    assert_healed(launcher.run(ARGS, strike), undisturbed, [(2, "crash"), (2, "crash")])


def test_a_source_dies_during_the_transfer(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(2)
        running.until(lambda e: e["event"] == "generation.open" and e["generation"] == 2)
        running.signal(0)

    assert_healed(launcher.run(ARGS, strike), undisturbed, [(0, "crash"), (2, "crash")])


@pytest.mark.parametrize("victim", ["newcomer", "holder"])
def test_whoever_dies_in_the_middle_of_a_large_transfer_takes_nobody_along(
    launcher: Launcher, victim: str
) -> None:
    """The others are in the middle of a message to it or from it, and gloo does not tell them."""
    kept: dict[int, int] = {}

    def strike(running: Running) -> None:
        running.until_commit(2)
        kept.update({rank: running.pid(rank) for rank in ((0, 1) if victim == "newcomer" else (0,))})
        running.signal(2)
        running.until(lambda e: e["event"] == "generation.open" and e["generation"] == 2)
        before = resident_bytes(running.pid(2))
        while resident_bytes(running.pid(2)) < before + LARGE_MB * 1e6 / 4:
            pass  # memory that another process fills has no event to wait for
        running.signal(2 if victim == "newcomer" else 1)

    args = [
        "--nproc-per-node",
        "3",
        "--spares",
        "2",
        str(SIZED),
        "--steps",
        "6",
        "--megabytes",
        str(LARGE_MB),
    ]
    outcome = launcher.run(args, strike)
    assert outcome.code == 0, outcome.stderr
    second = 2 if victim == "newcomer" else 1
    causes = [(c["rank"], c["kind"]) for done in outcome.of("recovery.done") for c in done["causes"]]
    assert sorted(causes, key=str) == sorted([(2, "crash"), (second, "crash")])
    last = {member["rank"]: member["pid"] for member in outcome.of("generation.open")[-1]["members"]}
    assert {rank: last[rank] for rank in kept} == kept


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_one_holder_is_enough(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        for rank in (0, 1, 3):
            running.signal(rank)

    causes = [(0, "crash"), (1, "crash"), (3, "crash")]
    assert_healed(launcher.run(ARGS, strike), undisturbed, causes)


def test_without_a_holder_the_job_ends_and_invents_nothing(launcher: Launcher) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        for rank in range(4):
            running.signal(rank)

    outcome = launcher.run(ARGS, strike)
    assert outcome.code == 3
    assert "state lost: no live rank holds the state" in outcome.stderr
    assert max(commit["step"] for commit in outcome.of("step.commit")) < STEPS - 1


def test_without_spares_the_template_forks_the_replacement(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(1)

    outcome = launcher.run(["--spares", "0", *ARGS], strike)
    assert_healed(outcome, undisturbed, [(1, "crash")])
    assert not outcome.of("worker.promoted")


def test_a_dead_template_is_made_again(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        below = {int(child) for child in children_of(running.job.pid)}
        workers = {event["pid"] for event in running.events if event["event"] == "worker.start"}
        (template,) = below - workers
        os.kill(template, signal.SIGKILL)
        running.signal(1)

    outcome = launcher.run(["--spares", "0", *ARGS], strike)
    # The rank, and perhaps a replacement that was asked of the template before its death was noticed. What
    # survivors felt before the rank's own death was heard of is told too, and names nobody.
    lost = [event for event in outcome.of("recovery.detect") if event["rank"] == 1]
    assert_healed(outcome, undisturbed, [(1, "crash")] * max(1, len(lost)))


def test_workers_are_executed_where_forking_is_forbidden(launcher: Launcher, undisturbed: Outcome) -> None:
    def strike(running: Running) -> None:
        running.until(lambda e: e["event"] == "worker.start" and e["role"] == "spare")
        running.until_commit(5)
        running.signal(1)

    outcome = launcher.run(["--start-method", "exec", *ARGS], strike)
    assert_healed(outcome, undisturbed, [(1, "crash")])


def test_release_from_inside_where_ptrace_rights_are_missing(
    launcher: Launcher, undisturbed: Outcome, tmp_path: Path
) -> None:
    def strike(running: Running) -> None:
        running.until_commit(5)
        running.signal(1)

    outcome = launcher.run(ARGS, strike, env={"RECOVERY_RELEASE": "inside"})
    assert_healed(outcome, undisturbed, [(1, "crash")])
    assert not outcome.of("group.release")


def test_the_tool_dies_and_nothing_is_left(launcher: Launcher) -> None:
    def strike(running: Running) -> None:
        running.until_commit(3)
        running.job.kill()

    outcome = launcher.run(ARGS, strike)
    assert outcome.code == -signal.SIGKILL
    pids = {event["pid"] for event in outcome.of("worker.start")}
    assert len(pids) >= 4
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended, _, _ = select.select([pidfd], [], [], 5)
        os.close(pidfd)
        assert ended, f"process {pid} outlived its supervisor"
