"""What a search has met: a table of states, roles and faults that shows the blanks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from chaos.simulation.plan import NAMES

Key = tuple[str, str, str]
PLACES = tuple(
    f"{stage} {role}"
    for stage in (
        "outside",
        "waiting",
        "connecting",
        "giving",
        "taking",
        "idle",
        "stepping",
        "sealing",
        "finished",
        "gone",
    )
    for role in ("rank 0", "holder", "newcomer")
)
# Combinations that can't be: who takes holds nothing, who gives, trains or has finished holds.
IMPOSSIBLE = frozenset(
    {f"{stage} newcomer" for stage in ("giving", "idle", "stepping", "sealing", "finished", "gone")}
    | {"taking holder"}
)
ROWS = (*(place for place in PLACES if place not in IMPOSSIBLE), "parked spare", "starting newcomer")


def faults_by_place(seen: Counter[Key]) -> Counter[tuple[str, str]]:
    """How often each fault hit a process in each place."""
    found: Counter[tuple[str, str]] = Counter()
    for (kind, name, place), times in seen.items():
        if kind.startswith("fault "):
            found[place, name] += times
    return found


def transitions(seen: Iterable[Key]) -> int:
    """Different (phase of the coordinator, message, status of its sender) that were met."""
    return sum(1 for kind, _, _ in seen if not kind.startswith("fault "))


def table(seen: Counter[Key]) -> str:
    """Rows: what a process was doing, and as whom. Columns: faults. A dot is a blank."""
    found = faults_by_place(seen)
    short = [name.split(".")[1][:9] for name in NAMES]
    width = max(len(row) for row in ROWS)
    lines = [f"{'':{width}} " + " ".join(f"{name:>9}" for name in short)]
    for row in ROWS:
        cells = [found[row, name] for name in NAMES]
        lines.append(f"{row:{width}} " + " ".join(f"{cell or '·':>9}" for cell in cells))
    blanks = sum(1 for row in ROWS for name in NAMES if not found[row, name])
    lines.append(f"{len(ROWS) * len(NAMES) - blanks} of {len(ROWS) * len(NAMES)} met, {blanks} blank")
    return "\n".join(lines)
