"""Hypothesis strategies: simulated faults, schedules and plans, and plans for real jobs.

    from hypothesis import given
    from chaos import strategies as chaos

    @given(chaos.plans(world=4))
    def test_my_protocol(plan): ...

    @recovery_property(chaos.fault_plans(world=2, steps=12))
    def test_my_training(steps): ...

What they draw is small first: few ranks, few faults, plain moments; so a failing plan shrinks to what
matters, and its `repr` is the code that makes it again. Needs the `hypothesis` package.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from chaos.errors import UserError
from chaos.simulation.generate import HOSTILE, MOMENTS, WEIGHTS
from chaos.simulation.generate_nodes import NODE_WEIGHTS
from chaos.simulation.plan import SimFault, SimPlan
from chaos.suite.load import did_you_mean
from chaos.suite.model import PHASES as SUITE_PHASES
from chaos.suite.model import RECOVERY_PHASES, STEP_PHASES
from chaos.testing.plans import FaultPlan
from injectors.catalogue import CATALOGUE
from injectors.fault import Fault

NAMES = tuple(WEIGHTS)
"""Faults of a job on one node, the commonest first: what shrinking prefers."""
HOSTILE_NAMES = (*NAMES, *HOSTILE)
ROLES = ("lowest_live", "transfer_source", "transfer_target", "replacement", "detected", "holder", "spare")
PHASES = ("forward", "backward", "optimizer", "commit")
NODE_FAULTS = tuple(NODE_WEIGHTS)
"""Faults of a node of a job on several, as in `node_faults`."""
LASTING = ("process.stop", "collective.hang", "collective.delay", "process.linger", "net.partition")


def moments(steps: int = 8) -> st.SearchStrategy[dict[str, Any]]:
    """When a fault strikes: at a phase of a step, at an event of the recovery, or at a time."""
    at_step = st.fixed_dictionaries({"step": st.integers(0, steps - 1), "phase": st.sampled_from(PHASES)})
    at_event = st.fixed_dictionaries({"event": st.sampled_from(MOMENTS), "occurrence": st.integers(1, 3)})
    at_time = st.fixed_dictionaries({"after_s": st.integers(0, 1400).map(lambda ms: ms / 1000)})
    return st.one_of(at_step, at_event, at_time)


def places(world: int = 4) -> st.SearchStrategy[dict[str, Any]]:
    """Whom a fault strikes: a rank, or whoever has a role at that moment."""
    by_rank = st.fixed_dictionaries({"rank": st.integers(0, world - 1)})
    by_role = st.fixed_dictionaries({"role": st.sampled_from(ROLES)})
    return st.one_of(by_rank, by_role)


@st.composite
def faults(
    draw: st.DrawFn, name_of: str = "f1", world: int = 4, steps: int = 8, hostile: bool = False
) -> SimFault:
    """One fault. With `hostile`, also those of the control channel."""
    name = draw(st.sampled_from(HOSTILE_NAMES if hostile else NAMES))
    duration_s: float | None = None
    params: dict[str, Any] = {}
    if name in LASTING or name == "workload.busy":
        duration_s = draw(st.integers(20, 2000).map(lambda ms: ms / 1000))
    elif name in HOSTILE:
        duration_s = draw(st.sampled_from((0.01, 0.05, 0.2, 1.0)))
        params = {"way": draw(st.sampled_from(("up", "down")))}
    return SimFault(name_of, name, draw(places(world)), draw(moments(steps)), duration_s, params)


@st.composite
def plans(draw: st.DrawFn, world: int | None = None, most_faults: int = 4, hostile: bool = False) -> SimPlan:
    """One simulated run: `world` ranks (3 to 6 without it) and up to `most_faults` faults."""
    size = world if world is not None else draw(st.integers(3, 6))
    steps = draw(st.integers(3, 8))
    count = draw(st.integers(0, most_faults))
    drawn = tuple(draw(faults(f"f{n + 1}", size, steps, hostile)) for n in range(count))
    return SimPlan(
        seed=draw(st.integers(0, 2**16)),
        world=size,
        spares=draw(st.integers(0, 2)),
        steps=steps,
        faults=drawn,
        schedule=draw(st.sampled_from(("uniform", "pct"))),
    )


@st.composite
def node_faults(draw: st.DrawFn, name_of: str = "f1", nodes: int = 3, steps: int = 8) -> SimFault:
    """One fault of a node, of its supervisor (`process.*`), of its links or of its clock."""
    name = draw(st.sampled_from(NODE_FAULTS))
    # Losing the coordinator's node ends the job: the others are what is to be explored.
    fatal = name in ("node.kill", "node.preempt", "process.kill")
    where = {"node": draw(st.integers(1 if fatal else 0, nodes - 1))}
    lasts = st.integers(50, 4000).map(lambda ms: ms / 1000)
    duration_s = draw(st.none() | lasts)
    params: dict[str, Any] = {}
    if name == "net.drop_one_way":
        one, other = draw(st.permutations(range(nodes)).map(lambda order: order[:2]))
        params = {"pairs": f"{one}>{other}"}
    elif name == "net.delay":
        params = {"delay_s": draw(st.sampled_from((0.01, 0.05, 0.2)))}
    elif name == "clock.drift":
        params = {"rate": draw(st.sampled_from(("slow", "fast")))}
    return SimFault(name_of, name, where, draw(moments(steps)), duration_s, params)


@st.composite
def fleet_plans(draw: st.DrawFn, nodes: int | None = None, most_faults: int = 3) -> SimPlan:
    """One simulated run on several nodes (2 to 4 without a number): faults of nodes and of ranks."""
    count = nodes if nodes is not None else draw(st.integers(2, 4))
    size = draw(st.integers(count, 6))
    steps = draw(st.integers(3, 8))
    drawn = tuple(
        draw(st.one_of(node_faults(f"f{n + 1}", count, steps), faults(f"f{n + 1}", size, steps)))
        for n in range(draw(st.integers(0, most_faults)))
    )
    return SimPlan(
        seed=draw(st.integers(0, 2**16)),
        world=size,
        spares=draw(st.integers(0, 1)),
        steps=steps,
        faults=drawn,
        nodes=count,
    )


def schedules(plan: SimPlan) -> st.SearchStrategy[SimPlan]:
    """The same simulated run, its events in other orders: the seed and the way of choosing are drawn."""
    orders = st.tuples(st.integers(0, 2**16), st.sampled_from((("uniform", 0), ("pct", 1), ("pct", 3))))
    return orders.map(lambda order: replace(plan, seed=order[0], schedule=order[1][0], changes=order[1][1]))


# -- plans for real jobs


FAIR = (
    *("process.kill", "process.stop", "process.exception", "process.exit", "process.segv", "process.abort"),
    *("collective.hang", "collective.error", "collective.skip"),
)
"""What `fault_plans` draws from where it is told nothing: each costs a rank, none needs a privilege."""
APART = 3
"""Steps between two faults: a job can lose one rank at a time, and has to have the last one back."""


def fault_plans(
    world: int = 4,
    steps: int = 20,
    faults: Sequence[str] = FAIR,
    max_faults: int = 3,
    phases: Sequence[str] = STEP_PHASES,
    seed: int = 0,
) -> st.SearchStrategy[FaultPlan]:
    """Plans for a real job: complete, pure data. For `chaos.testing.recovery_property`.

    Faults strike one rank each, `APART` steps from each other, so that a job that heals one loss at a time
    can survive every plan. A phase of a recovery (`transfer`, say) places a fault inside the recovery from
    the one before it, on a rank that the job can spare then.

    Args:
        world: ranks.
        steps: steps that a whole run commits.
        faults: which faults; `torch-chaos list` has all.
        max_faults: at most so many, at least one.
        phases: of a step, or of a recovery.
        seed: the training's.

    Raises:
        UserError: a fault or phase that there is not, or that no plan could place.
    """
    for name in faults:
        if name not in CATALOGUE:
            raise UserError(
                f"unknown fault {name!r}", did_you_mean(name, CATALOGUE) or "see `torch-chaos list`"
            )
        if CATALOGUE[name].aims_at == "nodes":
            raise UserError(f"{name} acts on nodes", "a plan of ranks has none; write a suite with a cluster")
    for phase in phases:
        if phase not in SUITE_PHASES:
            raise UserError(f"unknown phase {phase!r}", f"one of {', '.join(SUITE_PHASES)}")
    in_step = [phase for phase in phases if phase not in RECOVERY_PHASES]
    if not faults or not in_step or steps < 3 or world < 2 or max_faults < 1:
        raise UserError(
            "no plan can be drawn",
            "name a fault and a phase of a step, two ranks, three steps and one fault at least",
        )
    during = [phase for phase in phases if phase in RECOVERY_PHASES]
    return _fault_plans(world, steps, tuple(faults), max_faults, tuple(in_step), tuple(during), seed)


@st.composite
def _fault_plans(
    draw: st.DrawFn,
    world: int,
    steps: int,
    names: tuple[str, ...],
    most: int,
    in_step: tuple[str, ...],
    during: tuple[str, ...],
    seed: int,
) -> FaultPlan:
    entries: list[dict[str, Any]] = []
    step = draw(st.integers(1, steps - 2))
    for number in range(draw(st.integers(1, most))):
        if number and during and draw(st.booleans()):
            # Of two ranks the one that sends is the last that holds the state.
            spare = ("replacement",) if world == 2 else ("replacement", "transfer_source")
            where: dict[str, Any] = {"role": draw(st.sampled_from(spare))}
            when: dict[str, Any] = {"event": f"recovery.{draw(st.sampled_from(during))}"}
        else:
            step += draw(st.integers(APART, 2 * APART)) if number else 0
            if step > steps - 2:
                break
            where = {"rank": draw(st.integers(0, world - 1))}
            when = {"step": step, "phase": draw(st.sampled_from(in_step))}
        name = draw(st.sampled_from(names))
        params = draw(_params(CATALOGUE[name]))
        entry = {"fault": name, "where": where, "when": when, "id": f"f{number + 1}"}
        entries.append({**entry, **({"with": params} if params else {})})
    return FaultPlan(world, steps, tuple(entries), seed)


@st.composite
def _params(draw: st.DrawFn, fault: type[Fault]) -> dict[str, Any]:
    """Values for what a fault must be told; the rest keeps its defaults, drawn seeds included."""
    values: dict[str, Any] = {}
    for known in fault.parameters():
        if not known.required and not known.drawn:
            continue
        if known.choices:
            values[known.name] = draw(st.sampled_from(known.choices))
        elif known.kind == "int":
            values[known.name] = draw(st.integers(int(known.minimum or 0), int(known.maximum or 2**31 - 1)))
        elif known.kind == "float":
            low, high = known.minimum or 0.0, known.maximum if known.maximum is not None else 1.0
            # Thousandths: a plan is read by people.
            span = st.integers(1, max(1, round(min(high - low, 2.0) * 1000)))
            values[known.name] = round(low + draw(span) / 1000, 6)
    return values
