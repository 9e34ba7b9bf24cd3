"""Checkpointless recovery for replicated data-parallel training.

    run = recovery.join()
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)
    for index in run.steps(1000):
        loss = run.step(train_step, index)

Start it with `python -m recovery.launch --nproc-per-node 4 train.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recovery.errors import Interrupted, OutsideStep, RecoveryError

if TYPE_CHECKING:
    from recovery.run import Run, join
    from recovery.shell.process_group import ProcessGroup
    from recovery.state import StateError

_LAZY = {
    # The launcher imports this package too, and must not pay for torch.
    "Run": "recovery.run",
    "join": "recovery.run",
    "ProcessGroup": "recovery.shell.process_group",
    "StateError": "recovery.state",
}

__all__ = ["Interrupted", "OutsideStep", "ProcessGroup", "RecoveryError", "Run", "StateError", "join"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'recovery' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(_LAZY[name]), name)
