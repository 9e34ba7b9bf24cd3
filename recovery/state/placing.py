"""Tensors of a receiver: which object stands for which tensor of the manifest, and in which memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from recovery.state.errors import StateError
from recovery.state.kinds import is_array
from recovery.state.memory import Region, check_tensor, find_regions, layout_of, view_raw

_SAME_MEND = "build the same objects on every rank before protect()"


class Placing:
    """Chooses a tensor for each of the manifest, then lays their memory out as the holder's."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._regions = manifest["regions"]
        self._specs = {spec["path"]: spec for spec in manifest["tensors"]}
        self._chosen: dict[str, Tensor] = {}
        self._arrays: dict[str, Any] = {}
        self._claimed: set[int] = set()
        self._device: torch.device | None = None

    def begin(self) -> None:
        """Start a pass over all paths; what an earlier pass chose stays chosen."""
        self._device = None

    @contextlib.contextmanager
    def near(self, tensor: Tensor) -> Iterator[None]:
        """Create accelerator tensors on the device of `tensor` within this block."""
        before, self._device = self._device, tensor.device
        try:
            yield
        finally:
            self._device = before

    def tensor(self, path: str, first: str, live: Any, strict: str) -> Tensor:
        """The tensor for `path`, which the holder met first at `first`.

        Raises:
            StateError: `live` belongs to the model's own shape and does not match.
        """
        if first in self._chosen:
            return self._chosen[first]
        spec = self._specs[first]
        dtype, shape = getattr(torch, spec["dtype"]), tuple(spec["shape"])
        usable = isinstance(live, Tensor) and id(live) not in self._claimed
        if isinstance(live, Tensor):
            check_layout = live.dtype == dtype and tuple(live.shape) == shape
            if strict and live.dtype != dtype:
                raise StateError(path, f"is {live.dtype}, the holder's is {dtype}", _SAME_MEND)
            if strict == "parameter" and tuple(live.shape) != shape:
                problem = f"has shape {list(live.shape)}, the holder's has {list(shape)}"
                raise StateError(path, problem, _SAME_MEND)
            usable = usable and check_layout and isinstance(live, nn.Parameter) == spec["parameter"]
            if usable:
                check_tensor(path, live.detach())
            if self._device is None and live.device.type != "cpu":
                self._device = live.device
        chosen = live if usable else self._create(path, spec, dtype)
        if chosen.grad_fn is not None:
            chosen = chosen.detach_()
        if chosen.requires_grad != spec["requires_grad"]:
            chosen.requires_grad_(spec["requires_grad"])
        self._choose(first, chosen, chosen)
        return chosen

    def array(self, path: str, first: str, live: Any) -> Any:
        """The NumPy array for `path`."""
        if first in self._arrays:
            return self._arrays[first]
        spec = self._specs[first]
        dtype = getattr(torch, spec["dtype"])
        if is_array(live) and live.flags.writeable and id(live) not in self._claimed:
            tensor = torch.from_numpy(live)
            alike = tensor.dtype == dtype and list(tensor.shape) == spec["shape"]
            if alike and layout_of(tensor) == spec["stride"]:
                self._choose(first, tensor, live)
                self._arrays[first] = live
                return live
        tensor = torch.empty_strided(spec["shape"], spec["stride"], dtype=dtype)
        self._arrays[first] = tensor.numpy()
        self._choose(first, tensor, self._arrays[first])
        return self._arrays[first]

    def finish(self) -> None:
        """Give all tensors memory laid out as on the holder, so that the same bytes mean the same values."""
        lost = self._specs.keys() - self._chosen.keys()
        assert not lost, f"no path of the manifest leads to {sorted(lost)}"
        paths = list(self._specs)
        found = {}
        for region in self.regions():
            found[paths[region.members[0][0]]] = {paths[index]: offset for index, offset in region.members}
        wanted: dict[int, dict[str, int]] = {}
        for path, spec in self._specs.items():
            if spec["region"] is not None:
                wanted.setdefault(spec["region"], {})[path] = spec["offset"]
        for number, members in wanted.items():
            fits = all(layout_of(self._chosen[path]) == self._specs[path]["stride"] for path in members)
            if not fits or found.get(next(iter(members))) != members:
                self._move(number, members)

    def tensors(self) -> list[Tensor]:
        """The chosen tensors in manifest order."""
        return [self._chosen[path] for path in self._specs]

    def regions(self) -> list[Region]:
        """Their memory."""
        return find_regions(list(self._specs), self.tensors())

    def _move(self, number: int, members: dict[str, int]) -> None:
        device = next(self._chosen[path].device for path in members)
        memory = torch.empty(self._regions[number]["bytes"], dtype=torch.uint8, device=device)
        for path, offset in members.items():
            if path in self._arrays:
                problem = "is a NumPy array that shares memory in another way than the holder's"
                raise StateError(path, problem, "give it memory of its own")
            tensor, spec = self._chosen[path], self._specs[path]
            if offset % tensor.element_size():
                problem = "shares memory with a tensor at an odd offset"
                raise StateError(path, problem, "give it memory of its own")
            tensor.data = view_raw(memory, offset, tensor.dtype, spec["shape"], spec["stride"])

    def _create(self, path: str, spec: dict[str, Any], dtype: torch.dtype) -> Tensor:
        device = torch.device(spec["device"])
        if spec["device"] != "cpu" and self._device is not None:
            device = self._device
        tensor = torch.empty_strided(spec["shape"], spec["stride"], dtype=dtype, device=device)
        return nn.Parameter(tensor, requires_grad=spec["requires_grad"]) if spec["parameter"] else tensor

    def _choose(self, first: str, tensor: Tensor, owner: Any) -> None:
        self._chosen[first] = tensor
        self._claimed.add(id(owner))
