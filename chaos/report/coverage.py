"""Which faults struck where and when: a table of fault, phase and role that shows its blanks. Pure.

Rules kept here:

- A cell is met by a fault that was *verified*: one that fired without proof leaves it blank.
- The columns are what could have been, not what was: every phase of a step and of a recovery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.suite.model import PHASES

RECOVERY = "recovery."
# Moments that are no phase: a step named alone, a collective, a time, an event of the job.
ELSE = ("step", "collective", "time")


@dataclass(frozen=True, order=True)
class Cell:
    """One way to strike."""

    fault: str
    phase: str
    role: str


@dataclass(frozen=True)
class Row:
    """One row of the table: the counts stand under the table's columns, 0 is a blank."""

    fault: str
    role: str | None
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Coverage:
    """What a run has met.

    Attributes:
        columns: phases and other moments.
        by_fault: a row for each fault, roles added up.
        by_role: a row for each fault and each role that the run used.
        missed: cells that were planned and not met.
        unused: faults of the catalogue that the run did not plan.
    """

    columns: tuple[str, ...]
    by_fault: tuple[Row, ...]
    by_role: tuple[Row, ...]
    missed: tuple[Cell, ...]
    unused: tuple[str, ...]

    @property
    def met(self) -> int:
        """Number of cells of `by_role` that are not blank."""
        return sum(1 for row in self.by_role for count in row.counts if count)

    @property
    def size(self) -> int:
        """Number of cells of `by_role`."""
        return len(self.by_role) * len(self.columns)


def cell_of(fault: str, where: Mapping[str, object], when: Mapping[str, object]) -> Cell:
    """The cell of a planned fault."""
    return Cell(fault, phase_of(when), role_of(where))


def phase_of(when: Mapping[str, object]) -> str:
    """The phase that a trigger names; else an event, ``collective``, ``step`` or ``time``."""
    event = when.get("event")
    if isinstance(event, str):
        return event.removeprefix(RECOVERY)
    if isinstance(when.get("phase"), str):
        return str(when["phase"])
    if when.get("collective") is not None:
        return "collective"
    return "step" if when.get("step") is not None else "time"


def role_of(where: Mapping[str, object]) -> str:
    """The victim's role. Rank 0 and node 0 are roles of their own: much code treats them differently."""
    if isinstance(where.get("role"), str):
        return str(where["role"])
    for key in ("rank", "node"):
        if where.get(key) is not None:
            return f"{key} 0" if where[key] == 0 else f"another {key}"
    return "the job"


def coverage(planned: Iterable[tuple[Cell, bool]], catalogue: Iterable[str] = ()) -> Coverage:
    """The table of a run.

    Args:
        planned: the cell of each planned fault, and whether the fault was verified.
        catalogue: all faults that there are, for `unused`.
    """
    faults = list(planned)
    met = Counter(cell for cell, verified in faults if verified)
    cells = {cell for cell, _ in faults}
    known = (*PHASES, *ELSE)
    columns = (*known, *sorted({cell.phase for cell in cells} - set(known)))
    names = sorted({cell.fault for cell in cells})
    roles = sorted({cell.role for cell in cells})
    by_role = tuple(_row(met, name, role, columns) for name in names for role in roles)
    return Coverage(
        columns=columns,
        by_fault=tuple(_sum(name, [row for row in by_role if row.fault == name]) for name in names),
        by_role=by_role,
        missed=tuple(sorted(cells - set(met))),
        unused=tuple(sorted(set(catalogue) - set(names))),
    )


def _row(met: Counter[Cell], fault: str, role: str, columns: Sequence[str]) -> Row:
    return Row(fault, role, tuple(met[Cell(fault, phase, role)] for phase in columns))


def _sum(fault: str, rows: Sequence[Row]) -> Row:
    return Row(fault, None, tuple(sum(counts) for counts in zip(*(row.counts for row in rows), strict=True)))
