"""What of a run makes it the same failure as another. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.errors import UserError
from chaos.report.model import ScenarioReport


@dataclass(frozen=True)
class Outcome:
    """What one run of a scenario came to.

    Attributes:
        violated: names of the invariants that do not hold.
        reason: the first evidence, one line.
        ranks: the victim's rank of each fault that fired, by the fault's id.
    """

    verdict: str
    violated: frozenset[str] = frozenset()
    reason: str = ""
    ranks: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: ScenarioReport) -> Outcome:
        """Read a judged scenario."""
        return cls(
            verdict=scenario.verdict,
            violated=frozenset(item.name for item in scenario.invariants if item.verdict == "VIOLATED"),
            reason=scenario.reason,
            ranks={fault.id: fault.rank for fault in scenario.faults if fault.rank is not None},
        )


@dataclass(frozen=True)
class Failure:
    """The failure that is looked for: this invariant does not hold."""

    invariant: str

    def shown_by(self, outcome: Outcome) -> bool:
        """Whether a run failed in this way, whatever else it did."""
        return outcome.verdict == "VIOLATED" and self.invariant in outcome.violated


def failure_of(outcome: Outcome, invariant: str | None = None) -> Failure:
    """The failure that a run has shown.

    Args:
        invariant: which, if several are violated; by default the one that the verdict gives as its reason.

    Raises:
        UserError: the run violated nothing, or not that.
    """
    if outcome.verdict != "VIOLATED":
        raise UserError(
            f"nothing to shrink: the verdict is {outcome.verdict} ({outcome.reason})",
            "name a plan that violates an invariant: only that can be seen to fail again",
        )
    if invariant is None:
        named = outcome.reason.partition(":")[0]
        return Failure(named if named in outcome.violated else min(outcome.violated))
    if invariant not in outcome.violated:
        violated = ", ".join(sorted(outcome.violated))
        raise UserError(f"{invariant} is not violated", f"violated: {violated}")
    return Failure(invariant)
