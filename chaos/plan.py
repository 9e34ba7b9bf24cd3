"""What a suite and a seed resolve to: pure data, every random choice made, every target named.

Rules kept here:

- Equal suite, seed and facts give a byte-identical plan, on every machine and every Python version: draws
  come from SHA-256, not from a library's generator.
- Every draw has a name (scenario, entry, repetition, what), so adding a scenario changes no other one's
  draws.
- A stored plan is complete: parameters carry their defaults, so a later default changes no replay.
- No file, clock or process: what must be known of the outside (`Facts`) is handed in.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from chaos.errors import Refused, UserError
from chaos.suite.load import Loaded
from chaos.suite.model import RECOVERY_PHASES, STEP_PHASES, FaultEntry, Scenario, When
from chaos.suite.params import complete, params_of
from chaos.suite.resolve import bounds_of, empty_target
from injectors.fault import Fault

VERSION = 1
# What of a target does not change the training it computes, and so does not make another twin.
NOT_IN_TWIN = frozenset({"spares", "max_restarts", "ignore_files", "preload"})


@dataclass(frozen=True)
class Facts:
    """What a plan must know of the outside world.

    Attributes:
        torch: version of the installed torch, "" if there is none.
        sources: content hash of a target's files, by the target's canonical JSON.
        folder: where relative paths of the suite start: an absolute path, or "package:suites".
    """

    torch: str
    sources: Mapping[str, str]
    folder: str


@dataclass(frozen=True)
class PlannedFault:
    """One fault, fully decided. `after_fault` in `when` names another fault's id."""

    id: str
    name: str
    where: dict[str, Any]
    when: dict[str, Any]
    inside: bool
    params: dict[str, Any]
    duration_s: float | None
    seed: int
    expects: str | None
    has_undo: bool


@dataclass(frozen=True)
class PlannedScenario:
    """One scenario, fully decided. `twin` is the content hash of its fault-free reference run."""

    name: str
    description: str
    seed: int
    target: dict[str, Any]
    faults: list[PlannedFault]
    bounds: dict[str, float | None]
    expect: dict[str, Any]
    recoveries: int | None
    twin: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in plan.json and as invariants read it."""
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """What a run does, and all that it needs to be done again."""

    suite: str
    seed: int
    folder: str
    scenarios: list[PlannedScenario]
    version: int = VERSION
    torch: str = ""
    description: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in plan.json."""
        return asdict(self)

    def to_json(self) -> str:
        """The canonical JSON: sorted keys, no optional blanks, one line."""
        return canonical(self.to_dict())

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, hex."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """A plan from plain data.

        Raises:
            UserError: not a plan of this version.
        """
        if data.get("version") != VERSION:
            raise UserError(
                f"not a plan of version {VERSION}: version is {data.get('version')!r}",
                "replay it with the torch-chaos that wrote it, or plan again from the suite",
            )
        try:
            scenarios = [
                PlannedScenario(**{**s, "faults": [PlannedFault(**fault) for fault in s["faults"]]})
                for s in data["scenarios"]
            ]
            return cls(**{**data, "scenarios": scenarios})
        except (KeyError, TypeError) as error:
            raise UserError(f"the plan is damaged: {error}", "plan again from the suite") from None


def canonical(data: Any) -> str:
    """JSON with one spelling for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class Draws:
    """Named draws from one root seed. The same name always gives the same value."""

    def __init__(self, seed: int, *names: object) -> None:
        self.seed, self.names = seed, names

    def number(self, low: int, high: int, *names: object) -> int:
        """A whole number from `low` to `high`, both included."""
        text = canonical([self.seed, *self.names, *names])
        # 256 bits over a range of at most a few thousand: the modulo's bias is below 2**-200.
        return low + int.from_bytes(hashlib.sha256(text.encode()).digest()) % (high - low + 1)

    def choice(self, options: Sequence[Any], *names: object) -> Any:
        """One of the options."""
        return options[self.number(0, len(options) - 1, *names)]


def make_plan(
    loaded: Loaded,
    seed: int | None,
    facts: Facts,
    catalogue: Mapping[str, type[Fault]],
    *,
    only: str | None = None,
    repeat: int = 1,
) -> Plan:
    """Resolve a suite.

    Args:
        loaded: the checked suite.
        seed: root seed; None takes the suite's own.
        facts: what is true of this machine.
        catalogue: fault classes by id.
        only: pattern (`kill_*`) or part of the names of the scenarios to keep.
        repeat: how often each scenario is run, with draws of its own each time.

    Raises:
        UserError: `only` matches nothing.
        Refused: a target has nothing to run.
    """
    suite = loaded.suite
    root = suite.seed if seed is None else seed
    scenarios: list[PlannedScenario] = []
    for scenario, target in zip(suite.scenarios, loaded.targets, strict=True):
        if only is not None and not matches(scenario.name, only):
            continue
        why = empty_target(target)
        if why is not None:
            raise Refused(f"{loaded.file}: scenario {scenario.name!r}: {why}", "give it something to run")
        for copy in range(repeat):
            name = scenario.name if repeat == 1 else f"{scenario.name}.{copy + 1}"
            scenarios.append(_scenario(scenario, name, target, root, loaded, facts, catalogue))
    if not scenarios:
        names = ", ".join(s.name for s in suite.scenarios)
        raise UserError(f"no scenario matches {only!r}", f"scenarios of {suite.suite}: {names}")
    return Plan(suite.suite, root, facts.folder, scenarios, torch=facts.torch, description=suite.description)


def matches(name: str, pattern: str) -> bool:
    """Whether a scenario is meant by `--only`: a shell pattern, or a part of the name."""
    return fnmatch.fnmatchcase(name, pattern) or pattern in name


def twin_hash(target: Mapping[str, Any], seed: int, facts: Facts) -> str:
    """Content hash of the fault-free run: target, its files, torch, seed. 16 hex digits."""
    kept = {key: value for key, value in target.items() if key not in NOT_IN_TWIN}
    parts = [kept, facts.sources.get(canonical(target), ""), facts.torch, seed]
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Size:
    """How many ranks and nodes a target has; without a cluster one node."""

    world: int
    nodes: int

    @classmethod
    def of(cls, target: Mapping[str, Any]) -> Size:
        """The size of a complete target."""
        return cls(target["world"], (target.get("cluster") or {"nodes": 1})["nodes"])

    def node_of(self, rank: int) -> int:
        """The node that a rank starts on."""
        return rank // max(1, self.world // self.nodes)


def _scenario(
    scenario: Scenario,
    name: str,
    target: dict[str, Any],
    root: int,
    loaded: Loaded,
    facts: Facts,
    catalogue: Mapping[str, type[Fault]],
) -> PlannedScenario:
    draws = Draws(root, name)
    faults = _faults(scenario.faults, draws, Size.of(target), catalogue)
    return PlannedScenario(
        name=name,
        description=scenario.description,
        seed=draws.number(0, 2**31 - 1, "seed"),
        target=target,
        faults=faults,
        bounds=bounds_of(loaded.suite.defaults.bounds, scenario.bounds),
        expect=scenario.expect.model_dump(exclude_none=True),
        recoveries=_recoveries(scenario, target, faults),
        twin=twin_hash(target, root, facts),
    )


def _recoveries(scenario: Scenario, target: Mapping[str, Any], faults: list[PlannedFault]) -> int | None:
    """How many recoveries are right: as stated, or one for each fault that calls for one. Unknown for a
    stranger."""
    if scenario.recoveries is not None:
        return scenario.recoveries
    if target["kind"] != "recovery":
        return None
    return sum(fault.expects is not None for fault in faults)


def _faults(
    entries: Sequence[FaultEntry], draws: Draws, size: Size, catalogue: Mapping[str, type[Fault]]
) -> list[PlannedFault]:
    planned: list[PlannedFault] = []
    # The plan's ids and places of each entry's repetitions: what `after_fault` and `other` refer to.
    ids: dict[str, list[str]] = {}
    before: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        count = entry.repeat.count if entry.repeat else 1
        places: list[dict[str, Any]] = []
        own_ids = [f"f{len(planned) + n + 1}" for n in range(count)]
        for n in range(count):
            here = Draws(draws.seed, *draws.names, index, n)
            where = _where(entry, here, size, before[min(n, len(before) - 1)] if before else {})
            places.append(where)
            when = _when(entry.when, here, n * (entry.repeat.every if entry.repeat else 0), n, ids)
            planned.append(_fault(entry, own_ids[n], where, when, here, catalogue[entry.fault]))
        if entry.id is not None:
            ids[entry.id] = own_ids
        before = places
    return planned


def _fault(
    entry: FaultEntry,
    fault_id: str,
    where: dict[str, Any],
    when: dict[str, Any],
    draws: Draws,
    kind: type[Fault],
) -> PlannedFault:
    given = dict(entry.with_)
    if entry.for_ is not None:
        given["duration_s"] = entry.for_
    if "seed" in params_of(kind) and "seed" not in given:
        given["seed"] = draws.number(0, 2**31 - 1, "params")
    params = complete(kind, given)
    duration_s = params.get("duration_s")
    return PlannedFault(
        id=fault_id,
        name=kind.id,
        where=where,
        when=when,
        inside=kind.inside,
        params=params,
        duration_s=duration_s,
        seed=draws.number(0, 2**31 - 1, "fault"),
        expects=kind.expects,
        has_undo=kind.has_undo,
    )


def _where(entry: FaultEntry, draws: Draws, size: Size, before: Mapping[str, Any]) -> dict[str, Any]:
    """The rank, node or role of one fault; `before` is that of the fault before it."""
    if entry.where.role is not None:
        return {"role": entry.where.role}
    if entry.where.node is not None:
        node = before.get("node")
        if node is None and "rank" in before:
            node = size.node_of(before["rank"])
        return {"node": _drawn(entry.where.node, draws, size.nodes, node, "node")}
    return {"rank": _drawn(entry.where.rank, draws, size.world, before.get("rank"), "rank")}


def _drawn(given: Any, draws: Draws, count: int, before: int | None, what: str) -> int:
    if given == "random":
        return draws.number(0, count - 1, what)
    if given == "other":
        return int(draws.choice([one for one in range(count) if one != before], what))
    return int(given)


def _when(when: When, draws: Draws, shift: int, nth: int, ids: Mapping[str, list[str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if when.step is not None:
        step = draws.number(*when.step, "step") if isinstance(when.step, list) else when.step
        out["step"] = step + shift
    if when.phase is not None:
        phase = draws.choice(STEP_PHASES, "phase") if when.phase == "random" else when.phase
        if phase in RECOVERY_PHASES:
            out["event"] = f"recovery.{phase}"
        else:
            out["phase"] = phase
    if when.collective is not None:
        out["collective"] = when.collective.model_dump(exclude_none=True)
    if when.event is not None:
        out["event"] = when.event
    # A repeated fault without a step moves on by occurrences of its event.
    moved = shift if when.step is None and when.after_s is None else 0
    if when.occurrence is not None or moved:
        out["occurrence"] = (when.occurrence or 1) + moved
    if when.after_fault is not None:
        known = ids[when.after_fault]
        out["after_fault"] = known[min(nth, len(known) - 1)]
    if when.after_s is not None:
        out["after_s"] = _moment(when.after_s, draws) + (shift if when.after_fault is None else 0)
    return out


def _moment(after: float | list[float], draws: Draws) -> float:
    if not isinstance(after, list):
        return after
    # Drawn in microseconds: the plan stays exact in decimal notation.
    return draws.number(round(after[0] * 1e6), round(after[1] * 1e6), "after_s") / 1e6
