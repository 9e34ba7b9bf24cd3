"""Faults of one collective, carried out where it is issued."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed


def perform(agent: Agent, armed: Armed, op: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Carry out a fault in place of, before or around a collective; returns its Work."""
    agent.report("failed", armed, f"this agent knows no {armed.name}", proven=False)
    return call(*args, **kwargs)


def perform_inner(agent: Agent, armed: Armed, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Carry out a fault below the runtime; returns the Work."""
    return call(*args, **kwargs)
