"""Run a function right after a module was imported for the first time."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

_wanted: dict[str, Callable[[ModuleType], None]] = {}
on_problem: Callable[[str], None] = lambda text: None  # noqa: E731


def when_imported(name: str, act: Callable[[ModuleType], None]) -> None:
    """Call `act(module)` after `name` has been executed. An error in `act` never reaches the target."""
    _wanted[name] = act


def start() -> None:
    """Begin to watch imports."""
    sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _wanted:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _wrap(spec, _wanted.pop(name))
                return spec
        return None


def _wrap(spec: importlib.machinery.ModuleSpec, act: Callable[[ModuleType], None]) -> None:
    loader = spec.loader
    if loader is None:
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        try:
            act(module)
        except Exception as error:
            on_problem(f"{spec.name}: {error!r}")

    # On this one loader object: its class, and what introspection sees of it, stay as they are.
    loader.exec_module = exec_module  # type: ignore[method-assign]
