"""Break training in tests: what a test file imports. The pytest plugin is `chaos.testing.plugin`.

    from chaos.testing import fault, recovery_property, Plan

Nothing here imports torch, and nothing is imported before it is used: a rank that runs a training function of
a test file imports that file too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.testing.plans import FaultPlan as Plan
    from chaos.testing.property import recovery_property
    from chaos.testing.wanted import fault

__all__ = ["Plan", "fault", "recovery_property"]

_HOMES = {
    "Plan": ("chaos.testing.plans", "FaultPlan"),
    "fault": ("chaos.testing.wanted", "fault"),
    "recovery_property": ("chaos.testing.property", "recovery_property"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)
