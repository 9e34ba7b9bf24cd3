"""The copy of the state that each step starts from.

Rules:
- `capture` runs at every step, so it only compares identities and copies bytes; it walks a part again only
  when a container in it changed in a way that is not a plain new number.
- The copy is private: nothing that user code can reach shares memory with it.
- `rollback` puts the captured objects back, not equal ones: identity and aliasing hold.
"""

from __future__ import annotations

import bisect
import copy
import itertools
from collections.abc import Callable, Iterator
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from recovery.state.errors import StateError
from recovery.state.layout import Layout
from recovery.state.leaves import is_scalar
from recovery.state.walk import Walk


class Shadow:
    """The captured state of all parts. `is_taken` says whether there is one."""

    def __init__(self, parts: dict[str, object]) -> None:
        self._parts = parts
        self._recordings: dict[str, _Recording] = {}
        self._layout = Layout(())
        self.is_taken = False

    def modules(self) -> Iterator[nn.Module]:
        """All modules met, in walk order."""
        for recording in self._recordings.values():
            yield from recording.walk.modules

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """(path, tensor) of all distinct tensors met, in walk order."""
        return zip(self._layout.paths, self._layout.tensors, strict=True)

    @torch.no_grad()
    def capture(self) -> None:
        """Record all parts as they are now."""
        self.is_taken = False
        self.refresh()
        self._layout.save()
        self.is_taken = True

    def refresh(self) -> None:
        """Bring what is known of all parts up to date, without copying a byte. It ends the last capture."""
        self.is_taken = False
        stale = [name for name, obj in self._parts.items() if not self._follow(name, obj)]
        if stale or not self._layout.holds():
            self._layout = Layout(
                found for recording in self._recordings.values() for found in recording.walk.found()
            )

    @torch.no_grad()
    def rollback(self) -> None:
        """Make all parts what they were at the last capture, and drop all gradients."""
        self._restore()
        roots = [
            (name, recording.walk.root)
            for name, recording in self._recordings.items()
            if recording.is_protocol
        ]
        for name, root in roots:
            load_protocol(name, self._parts[name], root)
        if roots:
            self._restore()  # whatever a loader did to other objects

    def _follow(self, name: str, obj: object) -> bool:
        """Bring one recording up to date; False when the layout of tensors no longer fits it."""
        recording = self._recordings.get(name)
        if recording is not None and recording.follow(self._layout.swap):
            return True
        walk = Walk(name, obj, self._parts, {})
        self._recordings[name] = _Recording(walk)
        return recording is not None and self._takes(recording.walk, walk)

    def _takes(self, old: Walk, new: Walk) -> bool:
        if old.paths != new.paths or old.visits != new.visits:
            return False
        pairs = zip(old.tensors, new.tensors, strict=True)
        return all(before is after or self._layout.swap(before, after) for before, after in pairs)

    def _restore(self) -> None:
        for recording in self._recordings.values():
            for watch in recording.walk.watches:
                watch.restore()
        self._layout.restore()


class _Recording:
    """One part as the last capture found it."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.is_protocol = walk.node[0] == "protocol"
        self._containers = [watch.container for watch in walk.watches]
        self._sizes = [watch.size for watch in walk.watches]
        # The values of all containers in one list: comparing it whole is what makes a capture cheap.
        self._filled = [watch for watch in walk.watches if watch.values]
        self._reads = [(watch.read, watch.container) for watch in self._filled]
        self._starts = [0, *itertools.accumulate(len(watch.values) for watch in self._filled)]
        self._values = [value for watch in self._filled for value in watch.values]

    def follow(self, swap: Callable[[Tensor, Tensor], bool]) -> bool:
        """Take over what changed: new numbers and like-for-like tensors, and lists of numbers.

        Returns:
            False when that is not all that changed, and the part must be walked again.
        """
        if self.is_protocol or list(map(len, self._containers)) != self._sizes:
            return False
        values: list[Any] = []
        try:
            for read, container in self._reads:
                values += read(container)
        except KeyError:
            return False
        if all(map(is_, values, self._values)):
            return True
        changed = [
            at for at, (old, new) in enumerate(zip(self._values, values, strict=True)) if old is not new
        ]
        lists = []
        for at in changed:
            old, new = self._values[at], values[at]
            if type(old) is list and type(new) is list:
                lists.append((old, new))
            elif isinstance(old, Tensor) and isinstance(new, Tensor) and swap(old, new):
                self.walk.tensors[:] = [new if tensor is old else tensor for tensor in self.walk.tensors]
            elif not (is_scalar(old) and is_scalar(new)):
                return False
        if not all(self._replace_list(old, new, values) for old, new in lists):
            return False
        for index in {bisect.bisect_right(self._starts, at) - 1 for at in changed}:
            self._filled[index].values = tuple(values[self._starts[index] : self._starts[index + 1]])
        self._values = values
        return True

    def _replace_list(self, old: list[Any], new: list[Any], values: list[Any]) -> bool:
        """Watch `new` in place of `old`, if both hold as many numbers and neither is held twice."""
        index = next((at for at, watch in enumerate(self._filled) if watch.container is old), None)
        if index is None or id(old) in self.walk.shared or any(new is other for other in self._containers):
            return False
        watch = self._filled[index]
        if len(new) != watch.size or not all(map(is_scalar, new)) or not all(map(is_scalar, watch.values)):
            return False
        self._containers = [new if container is old else container for container in self._containers]
        self._reads[index] = (watch.read, new)
        watch.container, watch.values = new, tuple(new)
        values[self._starts[index] : self._starts[index + 1]] = new
        return True


def load_protocol(path: str, obj: Any, root: Any) -> None:
    """Hand `root` to `load_state_dict`, in containers of its own: the loader may keep or change them.

    Raises:
        StateError: the loader raised.
    """
    try:
        obj.load_state_dict(_fresh_containers(root))
    except Exception as error:
        raise StateError(
            path, f"load_state_dict() refused its own state: {error!r}", "make it accept it"
        ) from error


def _fresh_containers(value: Any) -> Any:
    if type(value) in (list, tuple, set):
        return type(value)(_fresh_containers(item) for item in value)
    if isinstance(value, dict):
        fresh = copy.copy(value)
        fresh.update((key, _fresh_containers(item)) for key, item in value.items())
        return fresh
    return value
