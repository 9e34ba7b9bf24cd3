"""The times that reports hold, by scenario and by what was timed. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chaos.recoveries import PHASES
from chaos.report.model import Report, ScenarioReport

STEP = "step"
TOTAL = "total"
MEASURED = "measured"
TIMED = (*PHASES, TOTAL, MEASURED, STEP)
"""The phases of a recovery, the whole as the target tells it and as the judge measures it, and a step without
any disturbance, which shows what the faults' tools and the runtime cost while nothing happens."""

_NUMBERED = re.compile(r"(.+)\.(\d+)")


@dataclass
class Samples:
    """What some reports say together.

    Attributes:
        times: seconds, by scenario and by one of `TIMED`.
        ended: for each scenario, each run's verdict and whether it was the stated one.
    """

    times: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    ended: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)

    def of(self, scenario: str, timed: str) -> Sequence[float]:
        """The times of one kind in one scenario; empty if there is none."""
        return self.times.get((scenario, timed), ())


def samples(reports: Sequence[Report], *, with_suite: bool = False) -> Samples:
    """Gather the times of some reports. Repeats of a scenario (``name.3``) count as one scenario.

    Args:
        with_suite: call a scenario `suite/name`: two suites may each have one of that name.
    """
    found = Samples()
    for report in reports:
        names = base_names([scenario.name for scenario in report.scenarios])
        for scenario in report.scenarios:
            name = f"{report.suite}/{names[scenario.name]}" if with_suite else names[scenario.name]
            found.ended.setdefault(name, []).append((scenario.verdict, scenario.as_expected))
            for timed, values in _times(scenario).items():
                found.times.setdefault((name, timed), []).extend(values)
    return found


def base_names(names: Sequence[str]) -> Mapping[str, str]:
    """Each name without the number that ``--repeat`` gave it.

    A number is taken off only where all of ``name.1`` to ``name.N`` are there and `name` is not, since a name
    may end in a number of its own.
    """
    numbers: dict[str, set[int]] = {}
    for name in names:
        if match := _NUMBERED.fullmatch(name):
            numbers.setdefault(match[1], set()).add(int(match[2]))
    repeated = {
        base for base, seen in numbers.items() if base not in names and seen == set(range(1, len(seen) + 1))
    }
    bases = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        bases[name] = match[1] if match and match[1] in repeated else name
    return bases


def _times(scenario: ScenarioReport) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for recovery in scenario.recoveries:
        for timed in (*PHASES, TOTAL, MEASURED):
            value = getattr(recovery, f"{timed}_s")
            if value is not None:
                times.setdefault(timed, []).append(value)
    if scenario.step_s is not None:
        times[STEP] = [scenario.step_s]
    return times
