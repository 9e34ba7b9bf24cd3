"""Hypothesis strategies for simulated faults, schedules and plans.

    from hypothesis import given
    from chaos import strategies as chaos

    @given(chaos.plans(world=4))
    def test_my_protocol(plan): ...

What they draw is small first: few ranks, few faults, plain moments; so a failing plan shrinks to what
matters, and its `repr` is the code that makes it again. Needs the `hypothesis` package.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from chaos.simulation.generate import HOSTILE, MOMENTS, WEIGHTS
from chaos.simulation.generate_nodes import NODE_WEIGHTS
from chaos.simulation.plan import SimFault, SimPlan

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
