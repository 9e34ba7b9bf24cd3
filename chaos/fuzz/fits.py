"""Which cells of a job make sense: somebody has the role then, the job can survive it, a suite may state it.
Pure.

What the suite does itself is taken as it is: it may know better.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from chaos.fuzz.space import ANOTHER_NODE, ANOTHER_RANK, PLACES, Job, Moment
from chaos.report.coverage import Cell
from chaos.suite.load import SuiteError, load_text
from chaos.suite.model import FaultEntry
from injectors.fault import Fault

TRANSFER = ("transfer", "state.send", "state.receive")
ROLE_AT: Mapping[str, tuple[str, ...]] = {
    "transfer_source": TRANSFER,
    "transfer_target": TRANSFER,
    "detected": ("detect", "fence"),
}
"""Roles that somebody has only then; `replacement` is had from a loss on."""
PHASES_OF: Mapping[str, tuple[str, ...]] = {
    "collective": ("backward", "bucket", "collective", "step"),
    "data": ("data", "step"),
}
"""Families whose faults need a call of the job, and the phases in which it is made."""
EXPENDABLE = ("replacement", "transfer_target", "detected")
"""Roles of ranks that hold no state that a job of two could miss."""


def roles_of(entries: Iterable[FaultEntry]) -> dict[str, None]:
    """The roles that entries name, as the coverage table calls them."""
    roles: dict[str, None] = {}
    for entry in entries:
        where = entry.where
        if where.role is not None:
            roles[where.role] = None
        for key, first, another in PLACES:
            given = getattr(where, key)
            if given in ("random", "other"):
                roles |= {first: None, another: None}
            elif given is not None:
                roles[first if given == 0 else another] = None
    return roles


def candidates(
    job: Job, own_phases: Mapping[str, Collection[str]], roles: Mapping[str, Sequence[str]]
) -> Iterator[Cell]:
    """Every cell in which somebody can be struck.

    Args:
        own_phases: by fault, the phases that the suite has it in.
        roles: by fault, the roles that it may be aimed at.
    """
    missing = {ANOTHER_RANK} if job.world < 2 else set()
    missing |= {ANOTHER_NODE} if job.nodes < 2 else set()
    for name in job.kinds:
        usual = PHASES_OF.get(name.partition(".")[0])
        for phase in job.moments:
            if usual is not None and phase not in usual and phase not in own_phases.get(name, ()):
                continue
            for role in roles[name]:
                if role not in missing and phase in ROLE_AT.get(role, (phase,)):
                    yield Cell(name, phase, role)


def needs_loss(role: str, moment: Moment) -> bool:
    """Whether a rank must have been lost before: for the moment to come, or for the role to be anybody's."""
    return moment.after_loss or role in ("replacement", *ROLE_AT)


def open_moments(job: Job, cell: Cell) -> tuple[Moment, ...]:
    """The ways to reach a cell that the job can survive."""
    return tuple(
        moment
        for moment in job.moments[cell.phase]
        if not needs_loss(cell.role, moment) or _spared(job, cell)
    )


def _spared(job: Job, cell: Cell) -> bool:
    """Whether the job can lose this one as well, when it has just lost another."""
    if job.most < 2 or job.kinds[cell.fault].alone or not job.losses():
        return False
    return job.target["kind"] != "recovery" or job.world > 2 or cell.role in EXPENDABLE


def why_closed(job: Job, cell: Cell) -> str:
    """Why a cell without an open moment has none."""
    if job.most >= 2 and job.losses() and not job.kinds[cell.fault].alone:
        return f"{cell.role} at {cell.phase}: of two ranks it is the only one left that holds the state"
    return f"{cell.fault} at {cell.phase}: comes only after a loss, and nothing else here is one"


def refused(job: Job, cells: Sequence[Cell], catalogue: Mapping[str, type[Fault]]) -> dict[Cell, str]:
    """What a suite may not state, and its words for why."""
    if not cells:
        return {}
    scenarios = [{"name": f"s{n}", "faults": [_plainest(job, cell)]} for n, cell in enumerate(cells)]
    try:
        load_text(json.dumps(suite_of("space", 0, job, scenarios)), "the space", catalogue)
    except SuiteError as error:
        found: dict[Cell, str] = {}
        for problem in error.problems:
            assert problem.path[0] == "scenarios", problem
            found.setdefault(cells[int(problem.path[1])], problem.message)
        return found
    return {}


def _plainest(job: Job, cell: Cell) -> dict[str, Any]:
    """An entry of a cell with nothing left to draw."""
    where: dict[str, Any] = {"role": cell.role}
    for key, first, another in PLACES:
        if cell.role in (first, another):
            where = {key: int(cell.role == another)}
    moment = job.moments[cell.phase][0]
    when = dict(moment.when)
    if "after_s" in when:
        when["after_s"] = when["after_s"][0]
    if moment.stepped:
        when["step"] = job.steps[0]
    return {"fault": cell.fault, "where": where, "when": when, **job.kinds[cell.fault].recipes[0]}


def suite_of(name: str, seed: int, job: Job, scenarios: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A suite over one job, as plain data."""
    return {
        "suite": name,
        "seed": seed,
        "defaults": {"target": job.target, "bounds": dict(job.bounds)},
        "scenarios": [*scenarios],
    }
