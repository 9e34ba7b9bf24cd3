from __future__ import annotations

from pathlib import Path

from chaos.fuzz.draw import draw
from chaos.fuzz.planned import plan_of, reached
from chaos.fuzz.seen import Seen
from chaos.plan import Facts, canonical
from chaos.report.coverage import Cell
from injectors.catalogue import CATALOGUE
from tests.chaos.fuzz.spaces import FACTS, SMALL, loaded, space
from tests.chaos.fuzz.stand_in import verdict_of


def test_all_rounds_of_a_job_share_one_reference_run() -> None:
    of, seen = space(), Seen()
    target = loaded().targets[0]
    facts = Facts("2", {canonical(target): "hash of its files"}, "package:suites")
    first = plan_of("small", 3, draw(of, seen, 3), facts, CATALOGUE)
    seen.rounds = 1
    second = plan_of("small", 3, draw(of, seen, 3), facts, CATALOGUE)
    assert first.scenarios[0].twin == second.scenarios[0].twin
    assert first.hash != second.hash
    assert first.scenarios[0].target == target
    other = plan_of("small", 3, draw(of, seen, 3), FACTS, CATALOGUE)
    assert other.scenarios[0].twin != first.scenarios[0].twin, "the files decide what is trained"


def test_the_scenario_says_how_many_recoveries_are_right() -> None:
    quiet = SMALL.replace("for: 8s}", "for: 8s}\n    recoveries: 0")
    of = space(quiet, only=lambda name: name == "hang")
    (scenario,) = plan_of("small", 3, draw(of, Seen(), 3), FACTS, CATALOGUE).scenarios
    assert scenario.recoveries == 0
    of = space(only=lambda name: name == "hang")
    (scenario,) = plan_of("small", 3, draw(of, Seen(), 3), FACTS, CATALOGUE).scenarios
    assert scenario.recoveries == 1
    assert scenario.bounds == {"detect_s": 2.0, "recover_s": 1.0, "run_s": 60.0}


def test_only_a_fault_that_was_proven_has_reached_its_cell(tmp_path: Path) -> None:
    of = space(only=lambda name: name == "hang")
    plan = plan_of("small", 3, draw(of, Seen(), 3), FACTS, CATALOGUE)
    (struck,) = verdict_of(plan, "PASS", tmp_path).scenarios
    (cell,) = reached(struck)
    assert cell in {Cell("collective.hang", "backward", role) for role in ("rank 0", "another rank")}
    (missed,) = verdict_of(plan, "INCONCLUSIVE", tmp_path, fired=False).scenarios
    assert reached(missed) == ()
    unproven = struck.model_copy(deep=True)
    unproven.faults[0].verified = False
    assert reached(unproven) == ()
