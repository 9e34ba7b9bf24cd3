"""What the rounds so far have shown: all that the next one is drawn from, besides the seed. Pure.

A round is one line of ``fuzz.jsonl``. Rounds taken in one after the other give the same `Seen` whether they
were run just now or read from the file, so a resumed search draws what an uninterrupted one would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.fuzz.space import Aim
from chaos.report.coverage import Cell

PASS, FAILED, FLAKY, INCONCLUSIVE, KNOWN = "PASS", "FAILED", "FLAKY", "INCONCLUSIVE", "KNOWN"
"""What a round came to. KNOWN: it failed as a finding does that is there already."""
UNFINISHED = "not as small as can be"
"""How what is said of a shrinking begins that was ended before its end."""
IN_VAIN = 2
"""Times that a cell is not reached by a job that goes on, before it is thought out of reach."""
IN_VAIN_ELSEWHERE = 3
"""The same for a fault in a phase, whatever the role."""
MOST_TRIES = 6
"""Times that a cell is planned and not reached, whatever became of the job: a failing one hides the rest."""


@dataclass(frozen=True)
class Found:
    """A failure that counts.

    Attributes:
        id: the name of its folder.
        invariant: what does not hold.
        faults: names of the faults that are left of the plan.
        said: how far it was shrunk, in words.
    """

    id: str
    invariant: str
    faults: tuple[str, ...]
    said: str = ""

    def explains(self, violated: Iterable[str], faults: Iterable[str]) -> bool:
        """Whether a plan that fails need not be another failure: same invariant, and all of its faults."""
        return self.invariant in set(violated) and Counter(self.faults) <= Counter(faults)


@dataclass(frozen=True)
class Round:
    """One plan, drawn and run.

    Attributes:
        number: from 1.
        cells: of the faults that were planned.
        reached: of those that struck and were verified.
        new: of those, the ones that no round before had reached.
        category: PASS, FAILED, FLAKY, INCONCLUSIVE or KNOWN.
        failures, runs: how often it failed, of how many times.
        reason: the first evidence, one line.
        plan: the plan's hash.
        again: id of the finding that explains it, if it is KNOWN.
        found: the finding, if it FAILED.
        untested: whether the job made no step and no fault struck.
        wall_s: seconds, shrinking included.
    """

    number: int
    job: str
    cells: tuple[Cell, ...]
    reached: tuple[Cell, ...] = ()
    new: tuple[Cell, ...] = ()
    category: str = PASS
    failures: int = 0
    runs: int = 1
    reason: str = ""
    plan: str = ""
    again: str = ""
    found: Found | None = None
    untested: bool = False
    wall_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data: a line of ``fuzz.jsonl``."""
        found = None if self.found is None else {**vars(self.found), "faults": list(self.found.faults)}
        cells = {
            name: [_listed(cell) for cell in getattr(self, name)] for name in ("cells", "reached", "new")
        }
        rest = {key: value for key, value in vars(self).items() if key not in ("number", "found", *cells)}
        return {"round": self.number, **rest, **cells, "found": found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Round:
        """A round from plain data.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        rest = {key: value for key, value in data.items() if key != "round"}
        for name in ("cells", "reached", "new"):
            rest[name] = tuple(Cell(*cell) for cell in rest[name])
        if rest["found"] is not None:
            rest["found"] = Found(**{**rest["found"], "faults": tuple(rest["found"]["faults"])})
        return cls(number=data["round"], **rest)


def _listed(cell: Cell) -> list[str]:
    return [cell.fault, cell.phase, cell.role]


@dataclass
class Seen:
    """The sum of the rounds so far.

    Attributes:
        tries: how often each cell was planned.
        vain: how often it was planned and not reached, by a job that did not fail.
        reached: how often it was reached.
        corpus: rounds that reached something new, the oldest first.
        found: failures that count.
        categories: how many rounds came to what.
    """

    rounds: int = 0
    tries: Counter[Aim] = field(default_factory=Counter)
    vain: Counter[Aim] = field(default_factory=Counter)
    reached: Counter[Aim] = field(default_factory=Counter)
    corpus: list[Round] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    categories: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> Seen:
        """What some rounds have shown."""
        seen = cls()
        for one in rounds:
            seen.add(one)
        return seen

    def add(self, one: Round) -> None:
        """Take in one more round."""
        self.rounds = one.number
        self.tries.update(Aim(one.job, cell) for cell in set(one.cells))
        self.reached.update(Aim(one.job, cell) for cell in set(one.reached))
        if one.category in (PASS, INCONCLUSIVE):
            self.vain.update(Aim(one.job, cell) for cell in set(one.cells) - set(one.reached))
        self.categories[one.category] += 1
        if one.new:
            self.corpus.append(one)
        if one.found is not None:
            self.found.append(one.found)

    def new_of(self, job: str, reached: Iterable[Cell]) -> tuple[Cell, ...]:
        """Which of these cells no round has reached."""
        return tuple(sorted(cell for cell in set(reached) if not self.reached[Aim(job, cell)]))

    def explained(self, violated: Iterable[str], faults: Iterable[str]) -> Found | None:
        """The finding that a failing plan may be, or None."""
        names = list(violated), list(faults)
        return next((one for one in self.found if one.explains(*names)), None)

    def in_vain(self, aim: Aim) -> bool:
        """Whether a cell was tried often enough to be thought out of reach."""
        if self.reached[aim]:
            return False
        where = (aim.job, aim.cell.fault, aim.cell.phase)
        same = {other for other in self.tries if (other.job, other.cell.fault, other.cell.phase) == where}
        nowhere = not any(self.reached[other] for other in same)
        return (
            self.vain[aim] >= IN_VAIN
            or self.tries[aim] >= MOST_TRIES
            or (nowhere and sum(self.vain[other] for other in same) >= IN_VAIN_ELSEWHERE)
        )
