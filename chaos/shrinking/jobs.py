"""A scenario on a smaller job: fewer ranks, no spares, fewer steps, and its faults earlier. Pure.

A job's size is also written in the arguments that its script or launcher gets; where it is not found
there, the size is left as it is, because the two must agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from chaos.plan import PlannedFault, PlannedScenario

WORLD_FLAGS = ("--nproc-per-node", "--nproc_per_node")
STEP_FLAGS = ("--steps", "--max-steps", "--max_steps", "--num-steps", "--num_steps", "--train-steps")
MARGIN_STEPS = 10
"""Steps after the last fault: a recovery needs some to be seen, and a loss of data some more to show."""
FIRST_STEP = 3
"""The first steps of a job are slow and unlike the others."""


def smaller_jobs(scenario: PlannedScenario) -> Iterator[tuple[str, PlannedScenario]]:
    """The change in words, and the scenario."""
    target = scenario.target
    for world in range(2, target["world"]):
        smaller = with_world(target, world)
        if smaller is not None:
            faults = [_within(fault, world) for fault in scenario.faults]
            yield f"{world} ranks", replace(scenario, target=smaller, faults=faults)
    if target.get("spares"):
        yield "no spare", replace(scenario, target={**target, "spares": 0})
    planned = [fault.when["step"] for fault in scenario.faults if "step" in fault.when]
    if planned and min(planned) > FIRST_STEP:
        for first in dict.fromkeys((FIRST_STEP, min(planned) // 2)):
            if FIRST_STEP <= first < min(planned):
                faults = [_earlier(fault, min(planned) - first) for fault in scenario.faults]
                yield f"the first fault at step {first}", replace(scenario, faults=faults)
    steps = target.get("steps")
    if steps:
        least = max(planned, default=0) + MARGIN_STEPS
        for fewer in dict.fromkeys((least, (least + steps) // 2)):
            shorter = with_steps(target, fewer) if fewer < steps else None
            if shorter is not None:
                yield f"{fewer} steps", replace(scenario, target=shorter)


def with_world(target: dict[str, Any], world: int) -> dict[str, Any] | None:
    """The target with fewer ranks; None if that can't be told to it."""
    nodes = (target.get("cluster") or {"nodes": 1})["nodes"]
    if world % nodes or world < nodes:
        return None
    smaller = {**target, "world": world}
    if target["kind"] == "command":
        old, new = str(target["world"] // nodes), str(world // nodes)
        argv = replaced(target["argv"], WORLD_FLAGS, old, new)
        if argv is None:
            return None
        smaller["argv"] = argv
    return smaller


def with_steps(target: dict[str, Any], steps: int) -> dict[str, Any] | None:
    """The target with fewer steps; None if that can't be told to it."""
    shorter = {**target, "steps": steps}
    where = {"recovery": "args", "command": "argv"}.get(target["kind"])
    if where is not None:
        words = replaced(target.get(where) or [], STEP_FLAGS, str(target["steps"]), str(steps))
        if words is None:
            return None
        shorter[where] = words
    return shorter


def replaced(words: Sequence[str], flags: Sequence[str], old: str, new: str) -> list[str] | None:
    """The words with the value of one of the flags changed; None if none of them has the old value."""
    for position, word in enumerate(words):
        for flag in flags:
            if word == f"{flag}={old}":
                return [*words[:position], f"{flag}={new}", *words[position + 1 :]]
            if word == flag and words[position + 1 : position + 2] == [old]:
                return [*words[: position + 1], new, *words[position + 2 :]]
    return None


def _within(fault: PlannedFault, world: int) -> PlannedFault:
    rank = fault.where.get("rank")
    return (
        fault if rank is None or rank < world else replace(fault, where={**fault.where, "rank": rank % world})
    )


def _earlier(fault: PlannedFault, steps: int) -> PlannedFault:
    if "step" not in fault.when:
        return fault
    return replace(fault, when={**fault.when, "step": fault.when["step"] - steps})
