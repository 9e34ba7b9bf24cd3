"""A process group of one rank in which every collective is done at once: it has no threads and no sockets.

The template trains a toy with it, so that workers find DDP and the optimizer warm.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

_c10d: Any = torch._C._distributed_c10d
_Base: Any = dist.ProcessGroup


class _Done(_c10d.Work):  # type: ignore[misc]
    def __init__(self, outputs: Any) -> None:
        super().__init__()
        self._future: Future[Any] = Future()
        self._future.set_result(outputs)

    def wait(self, timeout: Any = None) -> bool:
        return True

    def get_future(self) -> Future[Any]:
        return self._future


class Rehearsal(_Base):  # type: ignore[misc]
    """Rank 0 of 1."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def getBackendName(self) -> str:
        return "rehearsal"

    def allreduce(self, tensors: Any, opts: Any = None) -> _Done:
        return _Done(tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> _Done:
        return _Done(tensors)
