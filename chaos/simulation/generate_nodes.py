"""Random plans for jobs on several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chaos.simulation.generate import make_fault
from chaos.simulation.plan import SimFault, SimPlan
from chaos.simulation.striking import NODE_POINTS

if TYPE_CHECKING:
    from random import Random

NODE_WEIGHTS = {
    "node.kill": 12,
    "node.preempt": 4,
    "node.isolate": 10,
    "node.return": 3,
    "node.freeze": 7,
    "process.kill": 7,
    "process.stop": 9,
    "net.partition": 16,
    "net.drop_one_way": 10,
    "net.delay": 7,
    "net.loss": 4,
    "net.reset": 5,
    "host.cpu_throttle": 3,
    "clock.drift": 6,
}
"""How often each fault of a node is drawn."""
RANK_WEIGHTS = {
    "process.kill": 10,
    "process.stop": 5,
    "process.linger": 2,
    "collective.hang": 2,
    "collective.error": 2,
    "collective.corrupt": 1,
    "numeric.bitflip": 1,
}
"""Faults of single ranks among them."""
OF_NODES = 0.8
ENDS_A_COORDINATOR = ("node.kill", "node.preempt", "process.kill")
COORDINATOR_DIES = 0.2
"""Share of these, where they are aimed at the coordinator's node, that stay there: they end the job."""
OTHER_POINTS = ("generation.open", "member.enter", "recovery.transfer", "recovery.fence", "group.release")
LASTS_S = (0.05, 0.2, 0.4, 0.6, 0.8, 1.2, 2.0, 4.0, None, None)
SPREAD_S = 2.5


def make_fleet_plan(
    rng: Random,
    seed: int,
    *,
    nodes: int | None = None,
    world: int | None = None,
    faults: int | None = None,
    schedule: str | None = None,
) -> SimPlan:
    """One random plan; without values, 2 to 5 nodes with up to 8 ranks and 1 to 5 faults."""
    count = nodes if nodes is not None else rng.choice((2, 3, 3, 3, 4, 5))
    size = world if world is not None else rng.choice(tuple(n for n in (2, 3, 4, 5, 6, 8) if n >= count))
    steps = rng.randrange(6, 13)
    many = faults if faults is not None else rng.choice((1, 2, 2, 3, 3, 4, 5))
    drawn = tuple(_fault(rng, f"f{n + 1}", count, size, steps, n) for n in range(many))
    pct = schedule if schedule is not None else ("pct" if rng.random() < 0.2 else "uniform")
    limits: dict[str, float] = {}
    if rng.random() < 0.15:
        limits["max_per_node"] = -(-size // count) + rng.randrange(0, 2)
    if rng.random() < 0.15:
        limits["min_nodes"] = rng.randrange(1, count + 1)
    if rng.random() < 0.05:
        limits["max_restarts"] = rng.randrange(0, 4)
    return SimPlan(
        seed=seed,
        world=size,
        spares=rng.choice((0, 0, 1)),
        steps=steps,
        faults=drawn,
        limits=limits,
        schedule=pct,
        changes=rng.randrange(0, 3) if pct == "pct" else 0,
        nodes=count,
    )


def _fault(rng: Random, name_of: str, nodes: int, world: int, steps: int, nth: int) -> SimFault:
    if rng.random() < OF_NODES:
        (name,) = rng.choices(tuple(NODE_WEIGHTS), tuple(NODE_WEIGHTS.values()))
        return make_node_fault(rng, name_of, name, nodes, steps, nth)
    (name,) = rng.choices(tuple(RANK_WEIGHTS), tuple(RANK_WEIGHTS.values()))
    return make_fault(rng, name_of, name, world, steps, nth)


def make_node_fault(rng: Random, name_of: str, name: str, nodes: int, steps: int, nth: int) -> SimFault:
    """One random fault of a node; `nth` is how many come before it."""
    index = rng.randrange(nodes)
    if (
        index == 0
        and name in ("node.kill", "node.preempt", "process.kill")
        and rng.random() > COORDINATOR_DIES
    ):
        index = rng.randrange(1, nodes)
    duration = rng.choice(LASTS_S)
    if duration is not None:
        duration = round(duration * rng.uniform(0.7, 1.3), 3)
    params: dict[str, Any] = {}
    if name == "net.partition":
        params = {"shape": rng.choice(("isolate", "isolate", "pairs", "ring", "majority", "bridge"))}
        if params["shape"] == "majority" and nodes < 3:
            params = {"shape": "isolate"}
        elif params["shape"] == "pairs":
            params["pairs"] = _pair(rng, nodes, "-")
    elif name == "net.drop_one_way" and rng.random() < 0.7:
        params = {"pairs": _pair(rng, nodes, ">")}
    elif name == "net.delay":
        duration = duration or 1.0
        params = {"delay_s": rng.choice((0.01, 0.05, 0.15, 0.3))}
    elif name == "clock.drift":
        duration, params = None, {"rate": rng.choice(("slow", "slow", "fast"))}
    elif name in ("net.loss", "host.cpu_throttle"):
        duration = duration or 1.0
    elif name in ("net.reset", "node.return"):
        duration = None
    return SimFault(name_of, name, {"node": index}, _when(rng, steps, nth), duration, params)


def _pair(rng: Random, nodes: int, mark: str) -> str:
    # Those who lose the coordinator lose their lease soon; other pairs have to be found out about.
    first = 1 if nodes > 2 and rng.random() < 0.6 else 0
    one, other = rng.sample(range(first, nodes), 2)
    return f"{one}{mark}{other}"


def _when(rng: Random, steps: int, nth: int) -> dict[str, Any]:
    draw = rng.random()
    if nth and draw < 0.4:
        return {"after_fault": f"f{rng.randrange(nth) + 1}", "after_s": round(rng.uniform(0.0, 1.2), 4)}
    if draw < 0.55:
        return {"after_s": round(rng.uniform(0.0, SPREAD_S), 4)}
    if draw < 0.75:
        phase = rng.choice(("forward", "backward", "optimizer", "commit"))
        return {"step": rng.randrange(steps), "phase": phase}
    points = (
        *NODE_POINTS,
        "generation.open",
        "member.enter",
        "recovery.transfer",
        "recovery.fence",
        "group.release",
    )
    point = rng.choice(points)
    if point in ("lease.grant", "node.answer"):
        occurrence = rng.randrange(1, 20)
    else:
        occurrence = rng.randrange(1, 3)
    when: dict[str, Any] = {"event": point, "occurrence": occurrence}
    if rng.random() < 0.6:
        when["after_s"] = round(rng.uniform(0.0, 0.1), 4)
    return when
