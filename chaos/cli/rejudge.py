"""`report`: stored histories judged again."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from chaos import report as reports
from chaos.errors import UserError
from chaos.history import History
from chaos.judge import ScenarioVerdict, exit_code, judge
from chaos.plan import Plan, PlannedScenario
from chaos.report.junit import Inconclusive
from chaos.report.pages import write_pages
from chaos.report.stored import HISTORY, PLAN, REPORT, TWINS
from chaos.runner.run import read_plan, write
from chaos.runner.view import Format, show
from injectors.catalogue import CATALOGUE


def report(folder: Path, form: Format, junit: Path | None, inconclusive: Inconclusive = "error") -> int:
    """Judge a run's folder again and write its report anew; returns the exit code.

    Raises:
        UserError: it is not a run's folder.
    """
    if not (folder / PLAN).is_file():
        raise UserError(f"{folder}: no {PLAN} in it", "name the folder of one run, reports/<suite>-<time>")
    plan = read_plan(folder / PLAN)
    before = _before(folder)
    results = [_judged(folder, scenario, before) for scenario in plan.scenarios]
    found = _built(plan, results, before, folder)
    write(folder / REPORT, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    reports.write_junit(found, junit or folder / "junit.xml", inconclusive)
    write_pages(folder, CATALOGUE)
    show(found, form, Console(stderr=form == "json", no_color=form != "rich" or None, highlight=False))
    code = found["exit_code"]
    assert isinstance(code, int)
    return code


def _before(folder: Path) -> dict[str, object]:
    try:
        data = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _judged(folder: Path, scenario: PlannedScenario, before: dict[str, object]) -> ScenarioVerdict:
    path = folder / scenario.name / HISTORY
    twin = folder / TWINS / scenario.twin / HISTORY
    reference = History.load(twin) if twin.is_file() else None
    if not path.is_file():
        return judge(History(()), reference, scenario.to_dict(), error=_reason(before, scenario.name))
    return judge(History.load(path), reference, scenario.to_dict())


def _reason(before: dict[str, object], name: str) -> str:
    """Why there is no history: as the run said it, which a second look cannot find out."""
    scenarios = before.get("scenarios")
    for scenario in scenarios if isinstance(scenarios, list) else []:
        if isinstance(scenario, dict) and scenario.get("name") == name:
            return str(scenario.get("reason"))
    return "the run ended before this scenario"


def _built(
    plan: Plan, results: list[ScenarioVerdict], before: dict[str, object], folder: Path
) -> dict[str, object]:
    stored = before.get("environment")
    environment = stored if isinstance(stored, dict) else {}
    wall_s = before.get("wall_s")
    code = exit_code(
        results,
        leftovers=bool(environment.get("left_over")),
        interrupted=bool(environment.get("interrupted")),
    )
    return reports.build(
        plan.to_dict(),
        results,
        environment,
        exit_code=code,
        wall_s=float(wall_s) if isinstance(wall_s, (int, float)) else 0.0,
        replay=f"torch-chaos replay {folder / PLAN}",
        plan_hash=plan.hash,
    )
