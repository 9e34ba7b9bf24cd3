"""What a search says: a line a round, and in the end the table, the findings, and what was left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from chaos.errors import one_line
from chaos.fuzz import seen as seens
from chaos.fuzz.seen import UNFINISHED, Found, Round, Seen
from chaos.fuzz.space import Aim, Space
from chaos.report.coverage import ELSE, Cell
from chaos.report.table import aligned, seconds
from chaos.suite.model import PHASES

BLANK, VAIN, NONE = ".", "?", ""


def opening(space: Space) -> list[str]:
    """What is drawn from, and what is not."""
    lines = []
    for job in space.jobs:
        where = f"{job.world} ranks" + (f" on {job.nodes} nodes" if job.nodes > 1 else "")
        steps = f", {job.target['steps']} steps" if job.target.get("steps") else ""
        most = f"up to {job.most} faults" if job.most > 1 else "one fault"
        quiet = ", to which no recovery may answer" if job.quiet else ""
        lines.append(f"  {job.name}: {where}{steps}; {len(job.cells)} cells; {most} a plan{quiet}")
    return [f"{space.suite}: {len(space.aims)} cells (fault x phase x role)", *lines, *left_out(space)]


def left_out(space: Space) -> list[str]:
    """What is not drawn, and why."""
    return [f"  left out: {one_line(line)}" for line in space.left_out]


def round_line(one: Round, seen: Seen, space: Space) -> str:
    """One round."""
    tried = " + ".join(str(Aim(one.job, cell)) for cell in one.cells)
    new = f"  +{len(one.new)} new" if one.new else ""
    met = sum(1 for aim in space.aims if seen.reached[aim])
    return (
        f"round {one.number}  {seconds(one.wall_s):>7}  {one.category:<12}  {one.job}: {tried}{new}"
        f"  [{met} of {len(space.aims)}]{_came_to(one)}"
    )


def _came_to(one: Round) -> str:
    match one.category:
        case seens.PASS:
            return ""
        case seens.KNOWN:
            return f"  as finding {one.again}"
        case seens.INCONCLUSIVE:
            return f"  {one.reason}"
        case _:
            return f"  {one.failures} of {one.runs} runs failed: {one.reason}"


def table(space: Space, seen: Seen) -> list[str]:
    """Fault and role by phase: how often each cell was reached, and the blanks.

    A dot is a cell that was not reached yet, a question mark one that was tried in vain, and nothing stands
    where nothing can be drawn.
    """
    cells = {aim.cell for aim in space.aims}
    known = (*PHASES, *ELSE)
    phases = sorted({c.phase for c in cells}, key=lambda p: (known.index(p) if p in known else len(known), p))
    rows = [["fault", "role", *phases]]
    for fault, role in sorted({(cell.fault, cell.role) for cell in cells}):
        marks = [_mark(Cell(fault, phase, role), space, seen) for phase in phases]
        rows.append([fault, role, *marks])
    return aligned(rows, words=2)


def _mark(cell: Cell, space: Space, seen: Seen) -> str:
    aims = [aim for aim in space.aims if aim.cell == cell]
    met = sum(seen.reached[aim] for aim in aims)
    if met:
        return str(met)
    if not aims:
        return NONE
    return VAIN if all(seen.in_vain(aim) for aim in aims) else BLANK


def closing(space: Space, seen: Seen, folder: str, flaky: Iterable[Round]) -> list[str]:
    """The table, the figures, and each finding with the command that does it again."""
    met = sum(1 for aim in space.aims if seen.reached[aim])
    vain = sum(1 for aim in space.aims if seen.in_vain(aim))
    counted = ", ".join(f"{count} {name}" for name, count in sorted(seen.categories.items()))
    lines = [
        *table(space, seen),
        "(a number: times reached; . not yet; ? tried in vain)",
        f"{met} of {len(space.aims)} cells reached, {vain} tried in vain",
        f"{seen.rounds} rounds: {counted or 'none'}",
    ]
    for found in seen.found:
        lines += finding(found, folder)
    for one in flaky:
        lines += [
            f"FLAKY, round {one.number}: {one.failures} of {one.runs} runs failed: {one.reason}",
            f"    reports: {folder}/rounds/{one.number:04}",
        ]
    return lines


def finding(found: Found, folder: str) -> list[str]:
    """One finding, for a person."""
    plan = f"{folder}/findings/{found.id}/plan.json"
    lines = [
        f"FOUND {found.id}: {found.invariant} does not hold with {', '.join(found.faults)} ({found.said})",
        f"    replay: torch-chaos replay {plan}",
        f"    reports: {folder}/rounds/{found.id.partition('-')[0]}",
    ]
    if found.said.startswith(UNFINISHED):
        lines.insert(2, f"    shrink: torch-chaos shrink {plan} --invariant {found.invariant}")
    return lines
