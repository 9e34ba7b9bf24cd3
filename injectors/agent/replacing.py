"""Put something else in the place of functions, wherever they are known by name, and put them back."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

_OURS = __name__.rpartition(".")[0]


class Replacing:
    """What was replaced, and how to put it back. References in default arguments and closures stay."""

    def __init__(self) -> None:
        self._done: list[tuple[dict[str, Any], str, Any, Any]] = []

    def __len__(self) -> int:
        return len(self._done)

    def put(self, names: dict[str, Any], key: str, value: Any) -> None:
        """Replace one entry of a namespace."""
        self._done.append((names, key, names[key], value))
        names[key] = value

    def everywhere(self, pairs: Mapping[Any, Any]) -> None:
        """Replace functions in every module that knows them; ours keep the real ones.

        Args:
            pairs: the real function to what takes its place.
        """
        by_id = {id(real): fake for real, fake in pairs.items()}
        for name, module in list(sys.modules.items()):
            names = getattr(module, "__dict__", None)
            if names is None or name == _OURS or name.startswith(_OURS + "."):
                continue
            for key, value in list(names.items()):
                fake = by_id.get(id(value))
                if fake is not None:
                    self.put(names, key, fake)

    def restore(self) -> int:
        """Put everything back that nobody else has replaced since; returns how many references."""
        done, self._done = self._done, []
        for names, key, real, fake in reversed(done):
            if names.get(key) is fake:
                names[key] = real
        return len(done)
