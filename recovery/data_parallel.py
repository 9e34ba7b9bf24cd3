"""Gradient averaging that survives changes of membership: DDP, made anew in each generation.

DDP may not be reused after a failed backward, and a fresh one beside one that has rebuilt its buckets
sends tensors of other sizes. The bucket layout must also never change: gloo adds in an order that depends
on an element's place in its bucket, so another layout changes the last bits of every parameter. So the
rebuild, which DDP does once after its first step, is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from recovery.errors import RecoveryError

RENEW_AFTER = 1024
"""Steps after which DDP is made anew (5 ms): while it waits for the rebuild that never comes, it notes 16
bytes for every gradient."""


class _FixedLayout:
    """A reducer that keeps its first bucket layout. Everything else is the real reducer's."""

    def __init__(self, reducer: Any) -> None:
        self._reducer = reducer

    def _rebuild_buckets(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reducer, name)


class DataParallel(torch.nn.Module):
    """Call it like the module. Parameters and state_dict are the module's own, without a prefix."""

    def __init__(
        self,
        module: torch.nn.Module,
        group: Any,
        position: Callable[[], tuple[int, int]],
        arguments: dict[str, Any],
    ) -> None:
        """`position` tells the current (generation, step)."""
        super().__init__()
        refused = {"process_group", "static_graph", "init_sync"} & set(arguments)
        if refused:
            raise RecoveryError(
                f"run.data_parallel sets {', '.join(sorted(refused))} itself\n"
                "  mend: leave it out; a fixed bucket layout is what makes recovery exact"
            )
        self.module = module
        self._group = group
        self._position = position
        # Buffers are made equal once a step, before the commit; DDP need not do it at every forward.
        self._arguments = {"forward_sync_buffers": False, **arguments}
        self._made_for = (0, 0)
        self._inner: list[DistributedDataParallel] = []  # in a list: it must not register as a submodule

    @property
    def ddp(self) -> DistributedDataParallel:
        """The wrapper of the current generation; only inside a step."""
        generation, step = self._position()
        if self._made_for != (generation, step // RENEW_AFTER):
            self._make()
            self._made_for = (generation, step // RENEW_AFTER)
        return self._inner[0]

    def _make(self) -> None:
        while self._inner:
            # The old one goes first: its hooks would reduce a second time.
            self._inner.pop().reducer._remove_autograd_hooks()
        ddp = DistributedDataParallel(
            self.module, process_group=self._group, init_sync=False, **self._arguments
        )
        ddp.reducer = _FixedLayout(ddp.reducer)  # type: ignore[assignment]
        self._inner.append(ddp)

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
