"""From a checked suite to the space that plans are drawn from. Pure.

Rules kept here:

- The space is what the suite names: of each job its faults, its moments and its roles, in every combination
  that makes sense. What is asked for beside it is added.
- A scenario that must not pass, or must not finish, is no source: its job is broken on purpose.
- A fault that not everybody can suffer, or that the job can't survive everywhere, keeps the roles that the
  suite gives it: which rank writes checkpoints, and which node can be spared, the suite knows.
- Bounds are the loosest that the suite states for the job: a drawn plan must not fail for being stricter.
- What cannot be drawn is said, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.errors import UserError
from chaos.fuzz import fits
from chaos.fuzz.asked import Asked
from chaos.fuzz.moments import moments_in, moments_of, named_steps
from chaos.fuzz.space import ANOTHER_NODE, ANOTHER_RANK, NODE_0, RANK_0, Job, Kind, Moment, Space
from chaos.plan import canonical
from chaos.suite.durations import spelled
from chaos.suite.load import Loaded
from chaos.suite.model import FaultEntry, Scenario
from chaos.suite.resolve import bounds_of, empty_target
from injectors.fault import Fault

MOST = 4
"""Faults in one plan, at most, where no other number is asked for."""
TAIL = 4
"""Steps before a job's end in which no fault strikes: a recovery needs some to be seen."""

ANYBODYS = frozenset({"process", "collective", "host", "data", "numeric"})
"""Families whose faults can strike any rank alike."""
USUAL_ROLES = {"store": ["store_host"], "net": [ANOTHER_NODE], "node": [ANOTHER_NODE]}
"""Of other families, where the suite does not use the fault: node 0 hosts the coordinator."""


def space_of(
    loaded: Loaded,
    catalogue: Mapping[str, type[Fault]],
    asked: Asked,
    *,
    only: Callable[[str], bool] = lambda name: True,
    why_not: Callable[[str], str | None] = lambda fault: None,
) -> Space:
    """What a suite lets be drawn.

    Args:
        loaded: the checked suite.
        catalogue: fault classes by id.
        asked: what is added to it.
        only: whether a scenario of this name is a source.
        why_not: why a fault can't be brought about on this machine; None where it can.

    Raises:
        UserError: nothing is left to draw.
    """
    left: list[str] = []
    jobs: list[Job] = []
    for source in _sources(loaded, only, left):
        job = _Maker(loaded, catalogue, asked, why_not, left, source).job({one.name for one in jobs})
        if job.cells:
            jobs.append(job)
    if not jobs:
        why = "; ".join(dict.fromkeys(left)) or "no scenario has a fault"
        raise UserError(f"{loaded.file}: nothing can be drawn: {why}", "add faults with --faults")
    return Space(loaded.suite.suite, tuple(jobs), tuple(dict.fromkeys(left)))


@dataclass
class _Source:
    """A target of the suite, whether its faults must stay without a recovery, and what is done to it."""

    target: dict[str, Any]
    quiet: bool
    scenarios: list[Scenario] = field(default_factory=list)

    @property
    def entries(self) -> list[FaultEntry]:
        return [entry for scenario in self.scenarios for entry in scenario.faults]


def _sources(loaded: Loaded, only: Callable[[str], bool], left: list[str]) -> list[_Source]:
    found: dict[str, _Source] = {}
    broken: list[str] = []
    counted: list[str] = []
    for scenario, target in zip(loaded.suite.scenarios, loaded.targets, strict=True):
        if not only(scenario.name) or empty_target(target) is not None:
            continue
        expect = scenario.expect
        if expect.verdict != "PASS" or expect.exit_code not in (None, 0):
            broken.append(scenario.name)
        elif scenario.recoveries not in (None, 0):
            counted.append(scenario.name)
        else:
            quiet = scenario.recoveries == 0 and bool(scenario.faults)
            source = found.setdefault(canonical([target, quiet]), _Source(target, quiet))
            source.scenarios.append(scenario)
    for names, why in ((broken, "not meant to pass, or to finish"), (counted, "with a number of recoveries")):
        if names:
            left.append(f"{len(names)} scenario{'s' * (len(names) != 1)} {why}: {', '.join(names)}")
    return list(found.values())


@dataclass
class _Maker:
    """Makes one job."""

    loaded: Loaded
    catalogue: Mapping[str, type[Fault]]
    asked: Asked
    why_not: Callable[[str], str | None]
    left: list[str]
    source: _Source

    def job(self, taken: set[str]) -> Job:
        """The job, with every cell that can be drawn for it."""
        moments = moments_of(
            # A fault of nodes that follows another is made for that one: it says nothing of other faults.
            (e for e in self.source.entries if not (self._of_nodes(e) and e.when.after_fault is not None)),
            self.asked.phases,
        )
        job = Job(
            name=_name(self.source.target, self.source.quiet, taken),
            target=self.source.target,
            bounds=self._bounds(),
            quiet=self.source.quiet,
            steps=self._steps(),
            node_steps=self._node_steps(),
            most=self._most(moments),
            moments=moments,
            kinds=self._kinds(),
            cells=(),
        )
        phases = {name: {m.phase for e in self._own(name) for m in moments_in(e)} for name in job.kinds}
        found = tuple(fits.candidates(job, phases, {name: self._roles(name) for name in job.kinds}))
        return self._possible(replace(job, cells=found))

    def _possible(self, job: Job) -> Job:
        refused = fits.refused(job, job.cells, self.catalogue)
        self.left += [f"{cell.fault} at {cell.phase}: {why}" for cell, why in refused.items()]
        job = replace(job, cells=tuple(cell for cell in job.cells if cell not in refused))
        closed = [cell for cell in job.cells if not fits.open_moments(job, cell)]
        self.left += [fits.why_closed(job, cell) for cell in closed]
        return replace(job, cells=tuple(cell for cell in job.cells if cell not in closed))

    def _of_nodes(self, entry: FaultEntry) -> bool:
        return self.catalogue[entry.fault].aims_at == "nodes"

    def _own(self, name: str) -> list[FaultEntry]:
        """A fault's entries that stand by themselves."""
        return [e for e in self.source.entries if e.fault == name and e.when.after_fault is None]

    # -- faults and roles

    def _kinds(self) -> dict[str, Kind]:
        named: dict[str, list[Mapping[str, Any]]] = {}
        for entry in self.source.entries:
            recipe: dict[str, Any] = {} if entry.for_ is None else {"for": spelled(entry.for_)}
            recipe |= {"with": dict(entry.with_)} if entry.with_ else {}
            known = named.setdefault(entry.fault, [])
            if recipe not in known:
                known.append(recipe)
        if not self.source.quiet:
            for name in self.asked.faults:
                named.setdefault(name, [{}])
        kinds = {}
        for name, recipes in named.items():
            why = self.why_not(name)
            if why is None:
                kinds[name] = self._kind(name, recipes)
            else:
                self.left.append(f"{name}: {why}")
        return kinds

    def _kind(self, name: str, recipes: Sequence[Mapping[str, Any]]) -> Kind:
        fault = self.catalogue[name]
        of_nodes = fault.aims_at == "nodes"
        loud = fault.expects is not None and not self.source.quiet
        # What lasts and costs no rank makes the recovery from anything else slow; it is no part of a pair.
        alone = of_nodes or (not loud and fault.has_undo)
        drawn = tuple(
            (one.name, one.minimum or 0.0, one.maximum if one.maximum is not None else 1.0)
            for one in fault.parameters()
            if one.drawn
        )
        return Kind(name, tuple(recipes), loud, alone, of_nodes, drawn)

    def _roles(self, name: str) -> list[str]:
        """Whom a fault may be aimed at: whoever the suite aims anything at, if any rank can suffer it."""
        entries = self.source.entries
        if self.catalogue[name].aims_at != "nodes" and name.partition(".")[0] in ANYBODYS:
            found = fits.roles_of(entry for entry in entries if not self._of_nodes(entry))
            return [role for role in found if role not in (NODE_0, ANOTHER_NODE)] or [RANK_0, ANOTHER_RANK]
        if not any(entry.fault == name for entry in entries):
            return USUAL_ROLES.get(name.partition(".")[0], [RANK_0, ANOTHER_RANK])
        if not self._own(name):
            self.left.append(f"{name}: in the suite it follows another fault, and is made for that one")
        return list(fits.roles_of(self._own(name)))

    # -- the job's size

    def _steps(self) -> tuple[int, int]:
        steps = self.source.target.get("steps")
        if not steps:
            named = named_steps(self.source.entries) or [1]
            return min(named), max(named)
        last = max(0, steps - TAIL) if steps > TAIL + 1 else max(0, steps - 2)
        return min(1, last), last

    def _node_steps(self) -> tuple[int, int]:
        """A job goes on for long after it has lost a node, so only steps as early as the suite's will do."""
        low, high = self._steps()
        named = named_steps(entry for entry in self.source.entries if self._of_nodes(entry))
        return low, max(low, min(high, max(named, default=high // 10)))

    def _bounds(self) -> dict[str, str]:
        stated = [bounds_of(self.loaded.suite.defaults.bounds, one.bounds) for one in self.source.scenarios]
        found = {}
        for name in ("detect", "recover", "run"):
            values = [bounds[f"{name}_s"] for bounds in stated]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                found[name] = spelled(max(known))
        return found

    def _most(self, moments: Mapping[str, Sequence[Moment]]) -> int:
        if self.asked.most is not None:
            return self.asked.most
        counts = [sum(e.repeat.count if e.repeat else 1 for e in one.faults) for one in self.source.scenarios]
        in_recovery = any(moment.after_loss for ways in moments.values() for moment in ways)
        return max(2 if in_recovery else 1, min(MOST, max(counts, default=1)))


def _name(target: Mapping[str, Any], quiet: bool, taken: set[str]) -> str:
    """What to call a job: by what it runs."""
    words = list(target.get("argv") or ())
    script = next((word for word in words if word.endswith(".py")), next(iter(words), "job"))
    what = str(target.get("workload") or target.get("file") or script)
    base = what.rpartition("/")[2].removesuffix(".py") + "-quiet" * quiet
    number = 1
    while (name := base if number == 1 else f"{base}-{number}") in taken:
        number += 1
    return name
