"""How the members of several nodes make sure that they ran the same collectives: they tell each other.

It goes over connections of its own, so that what is compared can't be mistaken for a collective of the step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from recovery.shell.rescue import Waiting

_c10d: Any = torch._C._distributed_c10d


class Agreement:
    """One generation's."""

    def __init__(self, group: dist.ProcessGroupGloo, rank: int, size: int, waiting: Waiting) -> None:
        self._group: Any = group
        self._waiting = waiting
        self._rank = rank
        self._mine = torch.zeros(1, dtype=torch.int64)
        self._all = [torch.zeros(1, dtype=torch.int64) for _ in range(size)]

    def exchange(self, chain: int) -> dict[int, int]:
        """Every rank's fingerprint of what it ran; returns when all have said theirs.

        Raises:
            RuntimeError: a peer is gone, or the generation is over.
        """
        self._mine[0] = chain
        self._waiting.wait(self._group.allgather([self._all], [self._mine], _c10d.AllgatherOptions()))
        return {rank: int(theirs) for rank, theirs in enumerate(self._all)}

    def let_go(self) -> None:
        """The generation is over."""
        group, self._group = self._group, None
        self._waiting.let_go(group)
