"""From a drawn round to the plan that is run: the way of a suite file, with the same checks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from chaos.fuzz.draw import Drawn
from chaos.fuzz.fits import suite_of
from chaos.plan import Facts, Plan, make_plan
from chaos.report.coverage import Cell, cell_of
from chaos.report.model import ScenarioReport
from chaos.suite.load import load_text
from injectors.fault import Fault


def plan_of(suite: str, seed: int, drawn: Drawn, facts: Facts, catalogue: Mapping[str, type[Fault]]) -> Plan:
    """The plan of one round: a single scenario.

    Args:
        suite: the suite's name.
        seed: of the search; the training's, too, so that all rounds of a job share one reference run.
        facts: of the suite that the job is from.
    """
    scenario = {
        "name": f"round_{drawn.number}",
        "description": f"Drawn by torch-chaos fuzz, seed {seed}.",
        "faults": [*drawn.entries],
        **({"recoveries": 0} if drawn.job.quiet else {}),
    }
    text = json.dumps(suite_of(suite, seed, drawn.job, [scenario]))
    loaded = load_text(text, f"round {drawn.number}", catalogue)
    return make_plan(loaded, None, facts, catalogue)


def reached(scenario: ScenarioReport) -> tuple[Cell, ...]:
    """The cells of the faults that struck and were proven to have struck."""
    return tuple(
        sorted(
            {
                cell_of(fault.name, fault.where, fault.when)
                for fault in scenario.faults
                if fault.fired and fault.verified
            }
        )
    )
