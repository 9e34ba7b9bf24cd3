"""What differs between communication libraries: how a group forms and how its waits are ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.distributed as dist

from recovery.errors import RecoveryError
from recovery.shell.rendezvous import GROUP_TIMEOUT, form_gloo
from recovery.shell.rescue import Plain, Rescue, Waiting

_c10d: Any = torch._C._distributed_c10d
_TRACED = ("collective_seq_id", "profiling_name", "state", "input_sizes", "time_created_ns")
TRACE_ENTRIES = 16


class Backend(Protocol):
    name: str
    released_from_outside: bool
    """Whether shutting its sockets ends every wait."""

    def form(self, store: Any, rank: int, size: int, generation: int, address: str) -> Any:
        """Connect to all peers; `address` is this node's, "" in a job of one node.

        Raises:
            RuntimeError: that can't be done.
        """

    def abort(self, group: Any) -> None:
        """Let go of a group whose generation is over."""

    def trace(self) -> list[dict[str, Any]]:
        """The library's own record of its last collectives, newest last; empty if it keeps none."""

    def device(self) -> torch.device:
        """Where tensors must live to be sent."""

    def waiting(self, open_generation: Callable[[], int], futures: Callable[[], None]) -> Waiting:
        """How its works are waited for; see `Rescue` for the arguments."""


class Gloo:
    name = "gloo"
    released_from_outside = True

    def form(self, store: Any, rank: int, size: int, generation: int, address: str) -> Any:
        return form_gloo(store, rank, size, generation, address)

    def abort(self, group: Any) -> None:
        """The supervisor has shut the sockets, so nothing waits; the last reference closes the rest."""

    def trace(self) -> list[dict[str, Any]]:
        return []  # the progress page knows more

    def device(self) -> torch.device:
        return torch.device("cpu")

    def waiting(self, open_generation: Callable[[], int], futures: Callable[[], None]) -> Waiting:
        return Rescue(open_generation, futures)


class Nccl:
    """Written for GPUs. `abort` ends kernels in flight; there are no sockets to release from outside."""

    name = "nccl"
    released_from_outside = False

    def form(self, store: Any, rank: int, size: int, generation: int, address: str) -> Any:
        nccl: Any = dist.ProcessGroupNCCL
        options = nccl.Options()
        options._timeout = GROUP_TIMEOUT
        group = nccl(store, rank, size, options)
        # Connect now, so that a peer that does not come is noticed while the generation forms.
        group.eager_connect_single_device(self.device())
        return group

    def abort(self, group: Any) -> None:
        group.abort()

    def trace(self) -> list[dict[str, Any]]:
        # The flight recorder has one reader in builds with NCCL and, since 2.13, one for all builds.
        dump = getattr(_c10d, "_dump_nccl_trace_json", None) or getattr(_c10d, "_dump_fr_trace_json", None)
        if dump is None:
            return []
        entries = json.loads(dump()).get("entries", [])
        return [{name: entry.get(name) for name in _TRACED} for entry in entries[-TRACE_ENTRIES:]]

    def device(self) -> torch.device:
        return torch.device("cuda", torch.cuda.current_device())

    def waiting(self, open_generation: Callable[[], int], futures: Callable[[], None]) -> Waiting:
        return Plain()


def backend_named(name: str) -> Backend:
    """Raises: RecoveryError for a name that is not known."""
    known: dict[str, type[Gloo] | type[Nccl]] = {"gloo": Gloo, "nccl": Nccl}
    if name not in known:
        raise RecoveryError(f"unknown backend '{name}'\n  mend: one of {', '.join(known)}")
    return known[name]()
