"""What runs inside a victim. Standard library only; loaded there by path as `_torch_chaos_agent`.

`install()` puts hooks on three imports and does nothing else: no thread, no file, no socket. A process
becomes active at its first step, collective or recovery event, and reads its configuration then, so
that workers forked from a warm template each get their own.

    trigger.py  when a fault is due (pure)        link.py      the line to the engine
    core.py     where this process is             events.py    the history file
    imports.py  hooks on imports                  digest.py    digests of the training state
    steps.py    steps and phases                  acts.py      faults inside the process
    groups.py   collectives                       act_*.py     faults of collectives, numbers
    runtime.py  the events of our own runtime     cuda.py      a kernel that does not return
    stores.py   the store that ranks meet through loader.py    batches of a data loader
"""

from __future__ import annotations

import os


def install() -> None:
    """Hook the imports. Called once, by sitecustomize."""
    from . import core, groups, imports, loader, runtime, steps

    agent = core.AGENT
    imports.when_imported("torch", lambda module: steps.install(agent, module))
    imports.when_imported("torch.distributed.distributed_c10d", lambda module: groups.install(agent, module))
    imports.when_imported("torch.utils.data.dataloader", lambda module: loader.install(agent, module))
    imports.when_imported("recovery.events", lambda module: runtime.install(agent, module))
    imports.on_problem = agent.note_problem
    imports.start()
    os.register_at_fork(after_in_child=agent.after_fork)
