"""What an invariant says about one history, and how it collects its offences."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """Outcomes. VIOLATED outranks ERROR and INCONCLUSIVE, which outrank PASS."""

    PASS = "PASS"
    VIOLATED = "VIOLATED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    ERROR = "ERROR"


@dataclass(frozen=True)
class Finding:
    """The outcome of one invariant on one history.

    Attributes:
        name: the invariant.
        verdict: PASS, VIOLATED, INCONCLUSIVE or NOT_APPLICABLE.
        detail: one line for a person.
        count: number of offences; 0 unless VIOLATED.
        first, worst, last: evidence lines of three offences; None unless VIOLATED.
    """

    name: str
    verdict: Verdict
    detail: str
    count: int = 0
    first: str | None = None
    worst: str | None = None
    last: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Plain data for JSON."""
        return {**asdict(self), "verdict": str(self.verdict)}


def held(detail: str) -> Finding:
    """The invariant holds; `detail` says on how much evidence."""
    return Finding("", Verdict.PASS, detail)


def too_thin(detail: str) -> Finding:
    """The history should allow a judgement and does not."""
    return Finding("", Verdict.INCONCLUSIVE, detail)


def not_applicable(detail: str) -> Finding:
    """This target or scenario has nothing that the invariant speaks about."""
    return Finding("", Verdict.NOT_APPLICABLE, detail)


@dataclass
class Offences:
    """Collects evidence lines in history order; the worst is the first with the highest weight."""

    lines: list[tuple[float, str]] = field(default_factory=list)

    def add(self, line: str, weight: float = 0.0) -> None:
        """Record one offence. `weight` is any number that orders offences by severity."""
        self.lines.append((weight, line))

    def __bool__(self) -> bool:
        return bool(self.lines)

    def finding(self) -> Finding:
        """The VIOLATED finding. Call only if there are offences."""
        assert self.lines
        first, last = self.lines[0][1], self.lines[-1][1]
        worst = max(self.lines, key=lambda item: item[0])[1]
        count = len(self.lines)
        detail = first if count == 1 else f"{first} (and {count - 1} more)"
        return Finding("", Verdict.VIOLATED, detail, count, first, worst, last)

    def finding_or(self, otherwise: Finding) -> Finding:
        """VIOLATED if there are offences, else `otherwise`."""
        return self.finding() if self.lines else otherwise
