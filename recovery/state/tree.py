"""Everything a training step may change: captured, rolled back, described, moved and digested exactly.

On each step                capture, then rollback or not
After a fault, a holder     rollback, manifest, read
After a fault, a receiver   prepare, write (or receive into read's views), adopt

See `walk` for what counts as state.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch
from torch import Tensor

from recovery.state import kinds
from recovery.state.digest import Digest
from recovery.state.errors import StateError
from recovery.state.fit import Fitting
from recovery.state.layout import touch
from recovery.state.manifest import Description, check_format, describe, differences
from recovery.state.memory import Region, live_bytes
from recovery.state.shadow import Shadow, load_protocol
from recovery.state.stripes import Chunk
from recovery.state.walk import Walk


class StateTree:
    """The protected objects of one process, by name. Not thread-safe."""

    def __init__(self) -> None:
        self._parts: dict[str, object] = {}
        self._shadow = Shadow(self._parts)
        self._regions: list[Region] | None = None
        self._fitting: Fitting | None = None
        self._expected: dict[str, Any] = {}

    def add(self, name: str, obj: object) -> None:
        """Protect `obj`: a module, optimizer, scheduler, scaler, or anything with state_dict and
        load_state_dict.

        DDP's and torch.compile's wrappers are looked through.

        Raises:
            StateError: it, or something in it, can't be copied exactly or is rank-local.
        """
        if not name.isidentifier() or name in self._parts:
            problem = "is protected twice" if name in self._parts else "is not a name"
            raise StateError(repr(name), problem, "give each protected object an identifier of its own")
        obj = kinds.unwrap(obj)
        kinds.kind_of(name, obj)
        Walk(name, obj, None, {})  # a refusal belongs here, not into the first step
        self._parts[name] = obj
        self._shadow = Shadow(self._parts)
        self._regions = None

    def capture(self) -> None:
        """Copy all mutable state; called at each step's entry. Costs about the copy of the bytes.

        Raises:
            StateError: something appeared that can't be copied exactly.
        """
        self._shadow.capture()
        self._regions = None  # views of memory that this step may replace

    @property
    def captured(self) -> bool:
        """Whether there is a capture to roll back to."""
        return self._shadow.is_taken

    def rollback(self) -> None:
        """Undo everything since the last capture, in place, and set all gradients to None. May be repeated.

        Raises:
            StateError: nothing was captured, or a load_state_dict refused its own state.
        """
        if not self._shadow.is_taken:
            raise StateError("rollback", "nothing was captured", "call capture() first")
        self._shadow.rollback()
        self._regions = None

    @torch.no_grad()
    def digest(self) -> Digest:
        """Digest the state as it is now; equal on every rank that holds the same state."""
        return describe(self._parts).digest

    @torch.no_grad()
    def manifest(self) -> dict[str, Any]:
        """Describe the state as it is now, as JSON-able data (see `manifest`), and let `read` serve it."""
        return self._describe().manifest

    @torch.no_grad()
    def tensors(self) -> list[Tensor]:
        """The memory of all tensors as uint8 [num_bytes] views, overlapping ones once, in manifest order."""
        if self._regions is None:
            self._describe()
        assert self._regions is not None
        return [region.raw for region in self._regions]

    @torch.no_grad()
    def prepare(self, manifest: dict[str, Any]) -> None:
        """Match the structure of a holder's state, so that its bytes can be received into `read`'s views.

        The state is torn from here until `adopt` returns; `rollback` still leads back to the last capture.

        Raises:
            StateError: the ranks did not build the same objects; names the path.
        """
        check_format(manifest)
        self._fitting = None
        fitting = Fitting(manifest, self._parts)
        fitting.run()
        self._regions = fitting.regions()
        self._fitting, self._expected = fitting, manifest

    def read(self, chunk: Chunk) -> Tensor:
        """The live bytes of one chunk, uint8 1-D: a view always, so what is received into it is in place."""
        if self._regions is None:
            raise StateError("read", "no manifest describes this state", "call manifest() or prepare() first")
        return self._regions[chunk.tensor].raw[chunk.start : chunk.stop]

    def write(self, chunk: Chunk, data: Tensor) -> None:
        """Put received bytes (uint8 1-D) in place."""
        self.read(chunk).copy_(data)

    def flush(self) -> None:
        """Nothing to do: `read` and `write` reach tensors of any layout directly."""

    @torch.no_grad()
    def adopt(self, manifest: dict[str, Any]) -> Digest:
        """Take over a holder's state after all its bytes have landed, and capture it.

        Raises:
            StateError: prepare() was not called for this manifest, or the digest is not the manifest's.
        """
        fitting = self._fitting
        if fitting is None or self._expected["digest"] != manifest["digest"]:
            raise StateError("adopt", "this manifest was not prepared", "call prepare() with it first")
        touch(fitting.tensors())
        for name, root in fitting.roots.items():
            load_protocol(name, self._parts[name], root)
        fitting.run()  # a load_state_dict may have written to other objects, a learning rate for example
        found = self._describe().manifest
        if found["digest"] != manifest["digest"]:
            mine, theirs = found["digest"]["parts"], manifest["digest"]["parts"]
            parts = [name for name in theirs if mine[name] != theirs[name]]
            where = "; ".join(islice(differences(manifest, found), 3))
            problem = f"the adopted state is not the holder's: {where or 'digests differ'}"
            raise StateError(", ".join(parts) or "state", problem, "receive it again, from another holder")
        self._fitting = None
        self._shadow.capture()
        return Digest(found["digest"]["total"], found["digest"]["parts"])

    def sync_buffers(self) -> list[Tensor]:
        """The live buffers of all protected modules, non-persistent ones too, each once, empty ones left out.

        Their order is equal on all ranks. A buffer that overlaps itself (expanded) comes as the memory behind
        it.
        """
        if not self._shadow.is_taken:
            self._shadow.refresh()
        found: dict[int, Tensor] = {}
        for module in self._shadow.modules():
            for buffer in module._buffers.values():
                if buffer is not None and buffer.numel():
                    found[id(buffer)] = buffer
        return [live_bytes(buffer) if 0 in _strides(buffer) else buffer for buffer in found.values()]

    def unfinished_gradients(self) -> list[str]:
        """Paths of the tensors with a gradient; a tensor that appeared since the last capture is not seen."""
        if not self._shadow.is_taken:
            self._shadow.refresh()
        return [path for path, tensor in self._shadow.tensors() if tensor.is_leaf and tensor.grad is not None]

    def _describe(self) -> Description:
        description = describe(self._parts)
        self._regions = description.regions()
        return description


def _strides(tensor: Tensor) -> list[int]:
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]
