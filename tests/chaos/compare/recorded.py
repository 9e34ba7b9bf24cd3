"""Reports made of recorded recoveries, for the tests of comparisons.

No run is repeated here: a "repeat" is a draw, with a seed, from the 300 recoveries that
`reports/reference/soak` has recorded on one machine. A draw takes a whole recovery, so its phases belong
together. It has the spread of real times, but not what differs from one day to the next.
"""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

from chaos.report.model import Report
from tests.chaos.runs import ROOT

SOAK = ROOT / "reports" / "reference" / "soak" / "report.json"


@cache
def recorded() -> dict[str, Any]:
    """The recorded report, as plain data. Not to be changed."""
    found: dict[str, Any] = json.loads(SOAK.read_text(encoding="utf-8"))
    return found


def repeats(
    seed: int, count: int = 10, *, slower: str | None = None, factor: float = 2.0, each: int = 1
) -> Report:
    """A report of `count` repeats of both recorded scenarios, each with `each` recoveries drawn from its own.

    Args:
        seed: of the draws.
        slower: a phase whose times are multiplied by `factor`; the totals grow by as much.
    """
    rng = random.Random(seed)
    data = {**recorded(), "scenarios": []}
    for scenario in recorded()["scenarios"]:
        for number in range(1, count + 1):
            drawn = [slowed(one, slower, factor) for one in rng.choices(scenario["recoveries"], k=each)]
            # The recorded report has one step time a scenario; its draws vary by a tenth either way.
            step_s = scenario["step_s"] * rng.uniform(0.9, 1.1)
            data["scenarios"].append(
                {**scenario, "name": f"{scenario['name']}.{number}", "recoveries": drawn, "step_s": step_s}
            )
    return Report.model_validate(data)


def slowed(recovery: dict[str, Any], phase: str | None, factor: float) -> dict[str, Any]:
    """A recovery whose one phase took `factor` times as long."""
    if phase is None:
        return recovery
    more_s = recovery[f"{phase}_s"] * (factor - 1)
    grown = {f"{name}_s": recovery[f"{name}_s"] + more_s for name in (phase, "total", "measured")}
    return {**recovery, **grown}
