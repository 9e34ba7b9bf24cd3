"""Gradient averaging that survives changes of membership: DDP, made anew in each generation.

DDP may not be reused after a failed backward, and a fresh one beside one that has rebuilt its buckets
sends tensors of other sizes. The bucket layout must also never change: gloo adds in an order that depends
on an element's place in its bucket, so another layout changes the last bits of every parameter.
`find_unused_parameters=True` keeps the first layout for good.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from recovery.errors import RecoveryError


class DataParallel(torch.nn.Module):
    """Call it like the module. Parameters and state_dict are the module's own, without a prefix."""

    def __init__(
        self, module: torch.nn.Module, group: Any, generation: Callable[[], int], arguments: dict[str, Any]
    ) -> None:
        super().__init__()
        refused = {"process_group", "find_unused_parameters", "static_graph", "init_sync"} & set(arguments)
        if refused:
            raise RecoveryError(
                f"run.data_parallel sets {', '.join(sorted(refused))} itself\n"
                "  mend: leave it out; a fixed bucket layout is what makes recovery exact"
            )
        self.module = module
        self._group = group
        self._generation = generation
        # Buffers are made equal once a step, before the commit; DDP need not do it at every forward.
        self._arguments = {"forward_sync_buffers": False, **arguments}
        self._formed_for = 0
        self._inner: list[DistributedDataParallel] = []  # in a list: it must not register as a submodule

    @property
    def ddp(self) -> DistributedDataParallel:
        """The wrapper of the current generation; only inside a step."""
        if self._formed_for != self._generation() or not self._inner:
            self._inner.clear()  # the old one goes first: its hooks would reduce a second time
            self._inner.append(
                DistributedDataParallel(
                    self.module,
                    process_group=self._group,
                    init_sync=False,
                    find_unused_parameters=True,
                    **self._arguments,
                )
            )
            self._formed_for = self._generation()
        return self._inner[0]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        ddp = self.ddp
        if ddp.training != self.training:
            ddp.train(self.training)
        return ddp(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients locally, as DDP's own `no_sync`."""
        with self.ddp.no_sync():
            yield

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.state_dict(*args, **kwargs)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.load_state_dict(*args, **kwargs)
