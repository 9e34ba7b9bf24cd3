"""What a search has met: a table of states, roles and faults that shows the blanks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from chaos.simulation.node_faults import ROWS as NODE_ROWS
from chaos.simulation.plan import NAMES, NODE_NAMES

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


def faults_by_place(seen: Counter[Key], of: str = "fault ") -> Counter[tuple[str, str]]:
    """How often each fault hit a process, or with "node fault " a node, in each place."""
    found: Counter[tuple[str, str]] = Counter()
    for (kind, name, place), times in seen.items():
        if kind.startswith(of):
            found[place, name] += times
    return found


def transitions(seen: Iterable[Key]) -> int:
    """Different (phase of the coordinator, message, status of its sender) that were met."""
    return sum(1 for kind, _, _ in seen if not kind.startswith(("fault ", "node fault ")))


def table(seen: Counter[Key]) -> str:
    """Rows: what a process was doing, and as whom; what a node was to the job. Columns: faults. A dot is a
    blank."""
    text = _table(faults_by_place(seen), ROWS, NAMES)
    nodes = faults_by_place(seen, "node fault ")
    return f"{text}\n\n{_table(nodes, NODE_ROWS, NODE_NAMES)}" if nodes else text


def _table(found: Counter[tuple[str, str]], rows: Sequence[str], names: Sequence[str]) -> str:
    of_nodes = names is NODE_NAMES
    short = [_short(name, supervisor=of_nodes and name.startswith("process.")) for name in names]
    width = max(len(row) for row in rows)
    lines = [f"{'':{width}} " + " ".join(f"{name:>9}" for name in short)]
    for row in rows:
        cells = [found[row, name] for name in names]
        lines.append(f"{row:{width}} " + " ".join(f"{cell or '·':>9}" for cell in cells))
    blanks = sum(1 for row in rows for name in names if not found[row, name])
    lines.append(f"{len(rows) * len(names) - blanks} of {len(rows) * len(names)} met, {blanks} blank")
    return "\n".join(lines)


def _short(name: str, *, supervisor: bool) -> str:
    return ("sup." if supervisor else "") + name.split(".")[1][: 5 if supervisor else 9]
