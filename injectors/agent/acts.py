"""Faults that are carried out inside the process, at a phase or an event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

Act = Callable[["Agent", "Armed"], None]
ACTS: dict[str, Act] = {}
# Raised inside a listener of the runtime these would be an error of the runtime, not of the training code.
NEEDS_USER_CODE = ("process.exception", "process.oom")


def perform(agent: Agent, armed: Armed) -> None:
    """Carry out a fault, and say so; an act that can not be done is reported as failed."""
    act = ACTS.get(armed.name)
    if act is None:
        agent.report("failed", armed, f"this agent knows no {armed.name}", proven=False)
        return
    act(agent, armed)
