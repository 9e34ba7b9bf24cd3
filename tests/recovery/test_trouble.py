"""Trouble that a job makes for itself: what is healed, what ends it, and what it is told."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.recovery.jobs import ROOT, Launcher, Outcome

pytestmark = pytest.mark.slow

SCRIPT = ROOT / "tests" / "recovery" / "scripts" / "trouble.py"


class Trouble:
    def __init__(self, launcher: Launcher, folder: Path) -> None:
        self.launcher = launcher
        self.folder = folder

    def run(self, kind: str, *more: str, launch: tuple[str, ...] = ()) -> Outcome:
        folder = self.folder / f"{kind}{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        script = [str(SCRIPT), "--kind", kind, "--folder", str(folder), *more]
        return self.launcher.run(["--nproc-per-node", "4", *launch, *script])


@pytest.fixture
def trouble(launcher: Launcher, tmp_path: Path) -> Trouble:
    return Trouble(launcher, tmp_path)


@pytest.fixture(scope="module")
def undisturbed(launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    outcome = Trouble(launcher, tmp_path_factory.mktemp("reference")).run("none")
    assert outcome.code == 0, outcome.stderr
    return outcome


def causes(outcome: Outcome) -> list[tuple[int | None, str]]:
    return [(c["rank"], c["kind"]) for done in outcome.of("recovery.done") for c in done["causes"]]


def test_a_hang_is_noticed_long_before_the_group_timeout(trouble: Trouble, undisturbed: Outcome) -> None:
    started = time.monotonic()
    outcome = trouble.run("hang")
    assert outcome.code == 0, outcome.stderr
    assert causes(outcome) == [(2, "hang")]
    assert outcome.digests() == undisturbed.digests()
    assert time.monotonic() - started < 25


def test_an_exception_in_one_rank_is_replayed_by_a_replacement(
    trouble: Trouble, undisturbed: Outcome
) -> None:
    outcome = trouble.run("exception")
    assert outcome.code == 0, outcome.stderr
    assert causes(outcome) == [(2, "exception")]
    assert outcome.digests() == undisturbed.digests()
    details = [event["detail"] for event in outcome.of("recovery.detect")]
    assert any("ValueError: bad batch" in detail for detail in details)


def test_a_deterministic_exception_ends_the_job_with_its_cause(trouble: Trouble) -> None:
    outcome = trouble.run("exception", "--always")
    assert outcome.code == 1
    assert (
        "deterministic failure: 3 times at step 6: rank 2: exception (ValueError: bad batch" in outcome.stderr
    )


@pytest.mark.parametrize("kind", ["skip", "extra"])
def test_a_rank_out_of_step_is_named_and_rolled_back(
    trouble: Trouble, undisturbed: Outcome, kind: str
) -> None:
    outcome = trouble.run(kind)
    assert outcome.code == 0, outcome.stderr
    assert outcome.digests() == undisturbed.digests()
    named = causes(outcome)
    # gloo ends a process that receives more than it asked for: then there is a second victim, or the first
    # dies before its sequence was compared.
    echoes = [(rank, cause) for rank, cause in named if cause == "crash"]
    assert [cause for cause in named if cause not in echoes] in ([(2, "desync")], []), str(
        outcome.of("recovery.detect")
    )
    assert named
    if not echoes:
        assert not outcome.of("fence")


def test_a_fault_after_the_optimizer_step_leaves_nothing_half_done(
    trouble: Trouble, undisturbed: Outcome
) -> None:
    outcome = trouble.run("die_before_metric")
    assert outcome.code == 0, outcome.stderr
    assert causes(outcome) == [(2, "crash")]
    assert outcome.digests() == undisturbed.digests()
    assert outcome.of("step.rollback")


def test_quiet_troubles_start_no_recovery(trouble: Trouble, undisturbed: Outcome) -> None:
    for kind in ("gil", "straggler", "busy"):
        outcome = trouble.run(kind)
        assert outcome.code == 0, outcome.stderr
        assert causes(outcome) == [], kind
        assert outcome.digests() == undisturbed.digests()


def test_a_declared_phase_that_takes_too_long_is_a_hang(trouble: Trouble, undisturbed: Outcome) -> None:
    outcome = trouble.run("busy_too_long")
    assert outcome.code == 0, outcome.stderr
    assert causes(outcome) == [(2, "hang")]
    assert outcome.digests() == undisturbed.digests()


def test_a_script_that_fails_at_import_is_not_started_again(trouble: Trouble) -> None:
    outcome = trouble.run("import_error")
    assert outcome.code == 1
    assert "script failed: rank" in outcome.stderr
    assert "ImportError: no module named nonsense" in outcome.stderr
    assert len(outcome.of("worker.start")) <= 4


def test_rank_local_state_is_refused_by_name(trouble: Trouble) -> None:
    outcome = trouble.run("rank_local")
    assert outcome.code == 1
    assert "'private' differs between ranks after a step" in outcome.stderr


def test_a_generator_is_refused_by_name(trouble: Trouble) -> None:
    outcome = trouble.run("generator")
    assert outcome.code == 1
    assert "generator" in outcome.stderr
    assert "rank-local" in outcome.stderr


def test_gradients_may_not_be_left_for_a_later_step(trouble: Trouble) -> None:
    outcome = trouble.run("accumulate")
    assert outcome.code == 1
    assert "accumulate all micro-batches inside one run.step" in outcome.stderr


def test_a_loop_that_forgets_the_step_is_told(trouble: Trouble) -> None:
    outcome = trouble.run("forget")
    assert outcome.code == 1
    assert "step 0 was yielded but not run" in outcome.stderr


def test_a_failure_after_training_is_told_honestly(trouble: Trouble) -> None:
    outcome = trouble.run("late_error")
    assert outcome.code == 1
    assert "failed after the last step" in outcome.stderr


def test_the_budget_counts_for_the_whole_job(trouble: Trouble) -> None:
    outcome = trouble.run("exception", "--always", launch=("--max-restarts", "1"))
    assert outcome.code == 1
    assert "restart budget exhausted: 2 restarts, 1 allowed" in outcome.stderr
