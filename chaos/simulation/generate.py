"""Random plans: what, whom and when, drawn from one generator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chaos.simulation.plan import SimFault, SimPlan

if TYPE_CHECKING:
    from random import Random

# How often each fault is drawn, on one node's reliable channels.
WEIGHTS = {
    "process.kill": 34,
    "process.stop": 14,
    "process.exception": 5,
    "process.exit": 2,
    "process.linger": 3,
    "process.deaf": 2,
    "collective.hang": 8,
    "collective.delay": 6,
    "collective.error": 5,
    "collective.skip": 3,
    "collective.extra": 3,
    "collective.corrupt": 3,
    "numeric.bitflip": 4,
    "net.partition": 3,
    "workload.busy": 3,
}
HOSTILE = {"net.delay": 10, "net.loss": 6, "net.duplicate": 18}
MOMENTS = (
    "member.enter",
    "recovery.transfer",
    "state.send",
    "state.receive",
    "generation.formed",
    "worker.start",
    "worker.promoted",
    "worker.exit",
    "step.seal",
    "step.rollback",
    "generation.open",
    "recovery.detect",
    "recovery.fence",
    "recovery.resume",
    "group.release",
)
SPREAD_S = 1.4
"""Undisturbed jobs of this size take about as long, so that most moments fall inside."""


def make_plan(
    rng: Random,
    seed: int,
    *,
    world: int | None = None,
    faults: int | None = None,
    hostile: bool | None = None,
    schedule: str | None = None,
) -> SimPlan:
    """One random plan.

    Args:
        rng: where the plan's draws come from.
        seed: the seed of the run itself.
        world: ranks; by default 3 to 8, small ones more often.
        faults: how many; by default 1 to 5.
        hostile: whether the control channel delays, repeats and loses messages; by default one in five.
        schedule: "uniform" or "pct"; by default one in four is "pct".
    """
    size = world if world is not None else rng.choice((3, 3, 4, 4, 4, 5, 6, 8))
    count = faults if faults is not None else rng.choice((1, 2, 3, 3, 3, 4, 5))
    steps = rng.randrange(6, 11)
    mean = hostile if hostile is not None else rng.random() < 0.2
    weights = {**WEIGHTS, **HOSTILE} if mean else WEIGHTS
    if mean and count == 1:
        count = 2  # a late message alone changes nothing
    names = rng.choices(tuple(weights), tuple(weights.values()), k=count)
    drawn = [make_fault(rng, f"f{n + 1}", name, size, steps, n) for n, name in enumerate(names)]
    if rng.random() < 0.1:
        drawn = [replace(fault, when=_early(rng)) for fault in drawn]
    pct = schedule if schedule is not None else ("pct" if rng.random() < 0.25 else "uniform")
    limits: dict[str, float] = {}
    if rng.random() < 0.1:
        limits["max_restarts"] = rng.randrange(0, 4)
    return SimPlan(
        seed=seed,
        world=size,
        spares=rng.choice((0, 1, 1, 2)),
        steps=steps,
        faults=tuple(drawn),
        limits=limits,
        schedule=pct,
        changes=rng.randrange(0, 4) if pct == "pct" else 0,
    )


def make_fault(rng: Random, name_of: str, name: str, world: int, steps: int, nth: int) -> SimFault:
    """One random fault; `nth` is how many come before it, which it may follow closely."""
    where = _where(rng, name, world)
    when = _when(rng, name, steps, nth, where)
    duration: float | None = None
    params: dict[str, Any] = {}
    if name == "process.stop":
        duration = rng.choice((0.02, 0.05, 0.09, 0.11, 0.3, 1.0, 4.0, None))
    elif name == "collective.hang":
        duration = rng.choice((0.5, 1.5, 4.0, None))
    elif name in ("collective.delay", "process.linger", "net.partition", "workload.busy"):
        duration = round(rng.uniform(0.02, 2.0), 3)
    elif name in HOSTILE:
        duration = rng.choice((0.001, 0.01, 0.05, 0.2, 1.0))
        params = {"way": rng.choice(("up", "down"))}
    return SimFault(name_of, name, where, when, duration, params)


def _where(rng: Random, name: str, world: int) -> dict[str, Any]:
    draw = rng.random()
    if draw < 0.72:
        return {"rank": rng.randrange(world)}
    if draw < 0.80 and name in ("process.kill", "process.stop", "process.linger"):
        return {"role": rng.choice(("spare", "template") if name != "process.linger" else ("spare",))}
    return {
        "role": rng.choice(
            ("lowest_live", "transfer_source", "transfer_target", "replacement", "detected", "holder")
        )
    }


def _when(rng: Random, name: str, steps: int, nth: int, where: dict[str, Any]) -> dict[str, Any]:
    draw = rng.random()
    if name in HOSTILE and draw < 0.5:
        # The message that this point leads to is the one that suffers.
        point = rng.choice(("member.enter", "step.rollback", "recovery.transfer", "worker.start"))
        return {"event": point, "occurrence": rng.randrange(1, 3)}
    if nth and draw < 0.3:
        return {"after_fault": f"f{rng.randrange(nth) + 1}", "after_s": round(rng.uniform(0.0, 0.25), 4)}
    if draw < 0.5:
        return {"after_s": round(rng.uniform(0.0, SPREAD_S), 4)}
    if draw < 0.75 or name == "process.exception":
        phase = rng.choice(("forward", "backward", "optimizer", "commit"))
        return {"step": rng.randrange(steps), "phase": phase}
    if where.get("role") in ("transfer_source", "transfer_target"):
        return {"event": rng.choice(("recovery.transfer", "state.send", "state.receive"))}
    when: dict[str, Any] = {"event": rng.choice(MOMENTS), "occurrence": rng.randrange(1, 4)}
    if rng.random() < 0.5:
        when["after_s"] = round(rng.uniform(0.0, 0.05), 4)
    return when


def _early(rng: Random) -> dict[str, Any]:
    """While the first generation forms: nothing is committed yet, and nothing may be taken for granted."""
    event = rng.choice(("worker.start", "generation.open", "member.enter", "generation.formed"))
    return {"event": event, "occurrence": 1, "after_s": rng.choice((0.0, 0.0, 0.001, 0.005, 0.02))}
