"""The events of our own runtime, met in the process where they happen.

The seam is recognised by what it is, never by whose it is: a module `recovery.events` that says it
speaks `recovery-events-1`. Any other module of that name is left alone.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import groups
from .trigger import Point

if TYPE_CHECKING:
    from .core import Agent

PROTOCOL = "recovery-events-1"


def install(agent: Agent, module: ModuleType) -> None:
    """Listen to the runtime's events and stand between it and its backends."""
    if getattr(module, "EVENTS_PROTOCOL", None) != PROTOCOL:
        return
    module.listeners.append(lambda event, fields: on_event(agent, event, fields))
    module.backend_filters.append(lambda backend: filter_backend(agent, backend))
    agent.hooks.append("recovery.events")


def filter_backend(agent: Agent, backend: Any) -> Any:
    """A proxy where a fault of this run acts below the runtime; else the backend itself, at no cost."""
    wanted = (agent.awake or agent.wake()) and agent.has_inner_fault
    return groups.BackendProxy(agent, backend) if wanted else backend


def on_event(agent: Agent, event: str, fields: dict[str, Any]) -> None:
    """Follow the runtime's position, then meet what waits at this event. May block."""
    if not agent.awake and not agent.wake(in_runtime=True):
        return
    if not agent.from_runtime:
        return
    _follow(agent, event, fields)
    if agent.hot:
        step = fields.get("step", agent.step)
        agent.visit(Point("event", step, agent.phase, event=event, fields=fields), user_code=False)
    if event == "step.begin":
        agent.enter("data", user_code=False)
    elif event == "step.seal":
        agent.enter("commit", user_code=False)
    elif event == "step.commit":
        agent.enter("idle", user_code=False)


def _follow(agent: Agent, event: str, fields: dict[str, Any]) -> None:
    if agent.role == "supervisor":
        agent.generation = fields.get("generation", agent.generation)
        return
    if event in ("member.enter", "step.begin"):
        generation = fields.get("generation")
        if agent.generation is None and generation is not None:
            # A process whose first generation is not the job's first came to replace another.
            agent.fresh = generation > 1
        agent.generation = generation if generation is not None else agent.generation
        rank = fields.get("rank", os.environ.get("RANK"))
        agent.set_rank(None if rank is None else int(rank))
    if event == "step.begin":
        agent.phase = "idle"
        # The last attempt may have ended anywhere, for example between forward and backward.
        agent.await_forward()
        agent.set_step(int(fields["step"]))
