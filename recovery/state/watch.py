"""Mutable Python containers: noticing at once that one changed, and putting it back.

A watch holds a container and the values it had. It serves twice: the step entry compares by identity (which
is what makes it cheap), and rollback writes the same objects back into the same container.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from operator import is_, itemgetter
from typing import Any

Read = Callable[[Any], tuple[Any, ...]]


class Watch:
    """A container, its keys (None for sequences and sets) and its values."""

    __slots__ = ("container", "keys", "read", "size", "skip", "values")

    def __init__(
        self, container: Any, keys: tuple[Any, ...] | None, read: Read, skip: Callable[[str], bool] | None
    ):
        self.container = container
        self.keys = keys
        self.read = read
        self.skip = skip
        self.values = read(container)
        self.size = len(container)

    def restore(self) -> None:
        """Give the container the recorded objects again, in place."""
        container = self.container
        if self.skip is not None:
            self._restore_attributes()
        elif self.keys is not None:
            if not (same(tuple(container), self.keys) and same(tuple(container.values()), self.values)):
                container.clear()
                container.update(zip(self.keys, self.values, strict=True))
        elif not same(tuple(container), self.values):
            if isinstance(container, list):
                container[:] = self.values
            else:
                container.clear()
                (container.extend if isinstance(container, collections.deque) else container.update)(
                    self.values
                )

    def _restore_attributes(self) -> None:
        assert self.keys is not None
        assert self.skip is not None
        recorded = set(self.keys)
        for name in [name for name in self.container if name not in recorded and not self.skip(name)]:
            del self.container[name]
        self.container.update(zip(self.keys, self.values, strict=True))


def watch_mapping(container: Any) -> Watch:
    """Watch a dict whole."""
    keys = tuple(container)
    return Watch(container, keys, _reader(keys), None)


def watch_identities(container: Any) -> Watch:
    """Watch a dict with keys that are slow to hash (tensors), whose values are containers of one key each."""
    return Watch(container, tuple(container), lambda found: tuple(found.values()), None)


def watch_attributes(container: dict[str, Any], names: Iterable[str], skip: Callable[[str], bool]) -> Watch:
    """Watch some names of an object's __dict__; names for which `skip` holds are left alone by rollback."""
    keys = tuple(names)
    return Watch(container, keys, _reader(keys), skip)


def watch_items(container: Any) -> Watch:
    """Watch a list, deque or set."""
    return Watch(container, None, tuple, None)


def same(left: Iterable[Any], right: Iterable[Any]) -> bool:
    """Whether two sequences hold the same objects; lengths may differ."""
    left, right = tuple(left), tuple(right)
    return len(left) == len(right) and all(map(is_, left, right))


def _reader(keys: tuple[Any, ...]) -> Read:
    if not keys:
        return lambda container: ()
    if len(keys) == 1:
        key = keys[0]
        return lambda container: (container[key],)
    return itemgetter(*keys)
