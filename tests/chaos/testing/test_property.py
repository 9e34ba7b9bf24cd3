"""A property's search, with runs that are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, settings

from chaos.errors import UserError
from chaos.strategies import fault_plans
from chaos.testing import calling
from chaos.testing.current import current
from chaos.testing.options import Options
from chaos.testing.plans import FaultPlan
from chaos.testing.profiles import PROFILES
from chaos.testing.program import SCRIPT
from chaos.testing.property import (
    RECORD,
    FlakyRecovery,
    NothingTested,
    RecoveryFailed,
    Search,
    recovery_property,
)
from chaos.testing.repeats import Repeats
from chaos.testing.result import Result
from tests.chaos.testing.results import result, scenario

SETTINGS = settings(max_examples=30, derandomize=True)
PLANS = fault_plans(world=2, steps=20, faults=["process.kill", "process.stop"], max_faults=3)


def training(steps: int) -> None: ...


@dataclass
class Engine:
    """Answers instead of running. `verdict_of` sees the plan and how often it was run before."""

    folder: Path
    verdict_of: Callable[[dict[str, Any], int], str]
    options: Options = field(default_factory=Options)
    asked: list[dict[str, Any]] = field(default_factory=list)

    def run(self, program: object, **keywords: Any) -> Result:
        assert program is training
        before = self.asked.count(keywords)
        self.asked.append(keywords)
        (self.folder / SCRIPT).write_text("")
        return result(scenario(self.verdict_of(keywords, before)), folder=self.folder)


@pytest.fixture
def engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[dict[str, Any], int], str]], Engine]:
    def made(verdict_of: Callable[[dict[str, Any], int], str]) -> Engine:
        engine = Engine(tmp_path, verdict_of, Options(report=tmp_path))
        monkeypatch.setattr(current(), "chaos", engine)
        return engine

    return made


def names(keywords: dict[str, Any]) -> list[str]:
    return [fault["fault"] for fault in keywords["faults"]]


def search(test: object) -> Search:
    found: Search = getattr(test, RECORD)
    return found


def test_what_survives_every_plan_passes(engine: Any) -> None:
    run = engine(lambda asked, before: "PASS")
    test = recovery_property(PLANS, settings=SETTINGS, bounds={"run": "30s"})(training)
    test()
    assert len(run.asked) == len(search(test).judged) > 5
    assert all(asked["bounds"] == {"run": "30s"} and asked["world"] == 2 for asked in run.asked)
    assert search(test).close() == f"{len(run.asked)} plans: {len(run.asked)} PASS"


def test_a_failure_shrinks_to_what_matters_and_leaves_a_plan(engine: Any, tmp_path: Path) -> None:
    run = engine(lambda asked, before: "VIOLATED" if "process.stop" in names(asked) else "PASS")
    test = recovery_property(PLANS, settings=SETTINGS)(training)
    with pytest.raises(RecoveryFailed) as failed:
        test()
    first, smallest, again, keep = str(failed.value).splitlines()
    assert first == "2 of 2 runs failed (counts from 2 of 3 on): VIOLATED replicas_agree: they differ"
    (path,) = (tmp_path / "found").glob("*/plan.json")  # the larger ones found on the way are gone
    assert smallest == f"the smallest plan that fails: {path}"
    assert again == f"run it again:  torch-chaos replay {path}"
    assert keep == f"keep it:       @example(Plan.load('{path}'))"
    assert (path.parent / SCRIPT).is_file()
    smallest_of = min(
        (asked for asked in run.asked if "process.stop" in names(asked)), key=lambda a: len(a["faults"])
    )
    assert names(smallest_of) == ["process.stop"]
    # No plan was judged more often than its verdict takes.
    assert all(run.asked.count(asked) <= 2 for asked in run.asked)


def test_a_flaky_plan_stops_no_search_and_is_told_in_the_end(engine: Any) -> None:
    run = engine(lambda asked, before: "VIOLATED" if len(asked["faults"]) == 2 and not before else "PASS")
    test = recovery_property(PLANS, settings=SETTINGS)(training)
    test()
    assert len(search(test).judged) > len(search(test).flaky) > 0
    with pytest.raises(FlakyRecovery) as flaky:
        search(test).close()
    assert str(flaky.value).startswith(
        "FLAKY\n1 of 3 runs failed: VIOLATED replicas_agree: they differ\n  FaultPlan("
    )
    assert "FLAKY" in search(test).summary
    assert run.asked


def test_plans_that_say_nothing_are_no_pass(engine: Any) -> None:
    engine(lambda asked, before: "INCONCLUSIVE")
    test = recovery_property(PLANS, settings=settings(max_examples=3, derandomize=True))(training)
    test()
    with pytest.raises(NothingTested, match="3 plans, and none that says anything"):
        search(test).close()


def test_shrinking_ends_with_its_budget(engine: Any) -> None:
    run = engine(lambda asked, before: "VIOLATED" if len(asked["faults"]) > 1 else "PASS")
    test = recovery_property(PLANS, settings=SETTINGS)(training)
    search(test).shrink_s = -1.0
    with pytest.raises(RecoveryFailed, match="its budget ended before every smaller plan was tried"):
        test()
    failed = [asked for asked in run.asked if len(asked["faults"]) > 1]
    assert len(failed) == 2, "the first plan that failed, and once more to be sure"


def test_an_example_is_run_first(engine: Any) -> None:
    run = engine(lambda asked, before: "VIOLATED")
    kept = FaultPlan(
        2, 20, ({"fault": "process.kill", "where": {"rank": 1}, "when": {"step": 7}, "id": "f1"},)
    )
    with pytest.raises(RecoveryFailed):
        example(kept)(recovery_property(PLANS, settings=SETTINGS)(training))()
    assert run.asked[0]["faults"] == kept.faults


def test_repeats_may_be_asked_for(engine: Any) -> None:
    engine(lambda asked, before: "VIOLATED")
    test = recovery_property(PLANS, settings=SETTINGS, repeats=Repeats(4, 5))(training)
    with pytest.raises(RecoveryFailed, match=r"4 of 4 runs failed \(counts from 4 of 5 on\)"):
        test()


def test_the_training_function_stays_reachable_by_name() -> None:
    test = recovery_property(PLANS)(training)
    assert getattr(test, calling.TRAINING) is training
    assert test.__name__ == "training"


def test_outside_of_pytests_session_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current(), "chaos", None)
    with pytest.raises(UserError, match="a recovery property needs the session of pytest"):
        recovery_property(PLANS, settings=SETTINGS)(training)()


def test_profiles_are_known_to_hypothesis() -> None:
    recovery_property(PLANS)
    for name, profile in PROFILES.items():
        known = settings.get_profile(f"torch-chaos-{name}")
        assert (known.max_examples, known.deadline, known.database) == (profile.examples, None, None)
    assert settings.get_profile("torch-chaos-ci").derandomize
