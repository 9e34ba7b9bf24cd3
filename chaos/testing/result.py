"""What became of a run: the report, with what tests ask it for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chaos.plan import Plan
from chaos.report.model import FaultReport, RecoveryReport, Report, ScenarioReport

RANKING = ("VIOLATED", "ERROR", "INCONCLUSIVE", "PASS")


class NotRecovered(AssertionError):
    """A run that did not do what the test asserts. The whole of it is in the test's torch-chaos section."""


@dataclass(frozen=True)
class Result:
    """One run and its report.

    Attributes:
        report: as in report.json.
        plan: what was run, complete.
        folder: where the reports and histories are.
    """

    report: Report
    plan: Plan
    folder: Path

    @property
    def scenarios(self) -> list[ScenarioReport]:
        """Every judged scenario."""
        return self.report.scenarios

    @property
    def verdict(self) -> str:
        """The worst of the scenarios' verdicts: PASS, INCONCLUSIVE, ERROR or VIOLATED."""
        found = {scenario.verdict for scenario in self.scenarios}
        return next((verdict for verdict in RANKING if verdict in found), "ERROR")

    @property
    def as_expected(self) -> bool:
        """Whether every scenario ended as it states, and nothing is left over."""
        return self.report.exit_code == 0

    @cached_property
    def recoveries(self) -> list[RecoveryReport]:
        """Every recovery of every scenario, in the order of the plan."""
        return [recovery for scenario in self.scenarios for recovery in scenario.recoveries]

    @cached_property
    def faults(self) -> list[FaultReport]:
        """Every planned fault and what became of it."""
        return [fault for scenario in self.scenarios for fault in scenario.faults]

    @property
    def reason(self) -> str:
        """The first evidence of the first scenario that did not end as it states, or of the first one."""
        return self.first.reason

    @property
    def first(self) -> ScenarioReport:
        """The first scenario that did not end as it states, or the first one."""
        return next((s for s in self.scenarios if not s.as_expected), self.scenarios[0])

    @property
    def replay(self) -> str:
        """One command that does the same again."""
        return self.report.replay

    def assert_recovered(self, *, within_s: float | None = None) -> Result:
        """Every scenario passed, every fault took effect, and each recovery was in time.

        Args:
            within_s: bound on each recovery, from the fault to the next step that the job commits.

        Raises:
            NotRecovered: what is not so, with the command that runs it again.
        """
        __tracebackhide__ = True
        if not self.faults:
            raise NotRecovered(f"{self.first.name}: no fault was planned, so nothing had to recover")
        for scenario in self.scenarios:
            wrong = _wrong(scenario, within_s)
            if wrong is not None:
                raise NotRecovered(f"{scenario.name}: {wrong}\nreplay: {self.replay}")
        return self


def _wrong(scenario: ScenarioReport, within_s: float | None) -> str | None:
    """What a scenario that should have recovered lacks; None if nothing."""
    if scenario.verdict != "PASS":
        return f"{scenario.verdict}: {scenario.reason}"
    late = [r for r in scenario.recoveries if within_s is not None and (r.measured_s or 0.0) > within_s]
    if late:
        return (
            f"a recovery from {late[0].cause} took {late[0].measured_s:.3f} s, the test allows {within_s:g} s"
        )
    return None
