"""Make this process's objects match another rank's manifest: structure, exact leaves, and tensors ready for
bytes.

Rules:
- What exists and matches keeps its identity; what is missing is created; what is extra is dropped.
- The shape of the model itself (modules, parameters, dtypes of buffers) is never changed: a difference there
  means that the ranks did not build the same thing, and is an error.
- Only classes that this process has already imported are instantiated, without running their __init__.
  Nothing in a manifest is code.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from recovery.state import kinds
from recovery.state.errors import StateError
from recovery.state.leaves import Node, class_label, constant_label, decode_scalar, find_class
from recovery.state.memory import Region
from recovery.state.placing import Placing
from recovery.state.walk import encode_key
from recovery.state.watch import same

MISSING: Any = object()
_SAME_MEND = "build the same objects on every rank before protect()"
_LATE_MEND = "build it before protect(), on every rank"


class Fitting:
    """One manifest being fitted onto the protected objects of this process."""

    def __init__(self, manifest: dict[str, Any], parts: dict[str, object]) -> None:
        self._manifest = manifest
        self._parts = parts
        self._placing = Placing(manifest)
        self._made: dict[str, Any] = {}
        self._made_ids: set[int] = set()
        self.roots: dict[str, Any] = {}

    def run(self) -> None:
        """Fit all parts; may be repeated.

        A part known only by `state_dict` is not touched: what its `load_state_dict` needs is made in `roots`.

        Raises:
            StateError: the ranks did not build the same objects.
        """
        self._made.clear()
        self._made_ids.clear()
        self._placing.begin()
        if list(self._manifest["parts"]) != list(self._parts):
            problem = f"protects {list(self._parts)}, the holder protects {list(self._manifest['parts'])}"
            raise StateError("protect", problem, "protect the same names in the same order on every rank")
        for name, node in self._manifest["parts"].items():
            obj = self._parts[name]
            if node[0] == "protocol":
                self._same_class(name, node[1], obj)
                self.roots[name] = self.value(name, node[2], self.roots.get(name, MISSING))
            else:
                self.value(name, node, obj)
        self._placing.finish()

    def regions(self) -> list[Region]:
        """The memory of this process, region by region of the manifest."""
        return self._placing.regions()

    def tensors(self) -> list[Tensor]:
        """All tensors of the manifest, in its order."""
        return self._placing.tensors()

    def value(self, path: str, node: Node, live: Any, strict: str = "") -> Any:
        """The object that belongs at `path`: `live` itself, mended in place, wherever that is possible.

        Args:
            path: where.
            node: what the holder has there.
            live: what is there now, or MISSING.
            strict: "parameter" or "buffer" when `live` belongs to the model's own shape.
        """
        match node:
            case ["tensor", first]:
                return self._placing.tensor(path, first, live, strict)
            case ["array", first]:
                return self._placing.array(path, first, live)
            case ["same", first]:
                return self._made[first]
            case ["part", name]:
                if live is not self._parts[name]:
                    problem = f"is not the protected {name}, which the holder has here"
                    raise StateError(path, problem, _SAME_MEND)
                return live
            case ["constant", label]:
                return self._constant(path, label, live)
            case ["module", *_]:
                return self._module(path, node, live)
            case ["optimizer", *_]:
                return self._optimizer(path, node, live)
            case ["object", label, pairs]:
                return self._object(path, label, pairs, live)
            case [("list" | "deque" | "set") as kind, *_]:
                return self._list(path, node, live) if kind != "set" else self._set(path, node, live)
            case ["dict", *_]:
                return self._dict(path, node, live)
            case _:
                return self._immutable(path, node, live)

    def _constant(self, path: str, label: str, live: Any) -> Any:
        if live is MISSING or self._label(live) != label:
            shown = "nothing" if live is MISSING else self._label(live) or f"a {type(live).__name__}"
            problem = f"holder has {label} here, which can't be moved; this process has {shown}"
            raise StateError(path, problem, _LATE_MEND)
        return live

    @staticmethod
    def _label(live: Any) -> str | None:
        if kinds.is_array(live):
            return f"read-only array {live.dtype} {live.shape}"
        return constant_label(live)

    def _immutable(self, path: str, node: Node, live: Any) -> Any:
        match node:
            case ["tuple" | "named" as kind, *label, items]:
                old = live if isinstance(live, tuple) and len(live) == len(items) else [MISSING] * len(items)
                made = [self.value(f"{path}[{at}]", item, old[at]) for at, item in enumerate(items)]
                fresh = tuple(made) if kind == "tuple" else self._known(path, label[0])._make(made)
                return live if type(live) is type(fresh) and same(live, fresh) else fresh
            case ["size", sizes]:
                return torch.Size(sizes)
            case ["frozenset", keys]:
                return frozenset(self._key(path, key, {}) for key in keys)
            case ["frozen", label, pairs]:
                cls = self._known(path, label)
                fresh = object.__new__(cls)
                for name, child in pairs:
                    made = self.value(f"{path}.{name}", child, getattr(live, name, MISSING))
                    object.__setattr__(fresh, name, made)
                self._make(path, fresh)
                return fresh
            case ["method", name, child]:
                if not isinstance(live, types.MethodType) or live.__func__.__qualname__ != name:
                    raise StateError(path, f"holder has method {name} here, which can't be moved", _LATE_MEND)
                if self.value(f"{path}.__self__", child, live.__self__) is not live.__self__:
                    raise StateError(path, f"is the method {name} of another object", _LATE_MEND)
                return live
            case ["partial", func, args, keywords]:
                if not isinstance(live, functools.partial):
                    raise StateError(path, "holder has a partial here, which can't be moved", _LATE_MEND)
                made = [
                    self.value(f"{path}.func", func, live.func),
                    self.value(f"{path}.args", args, live.args),
                    self.value(f"{path}.keywords", keywords, live.keywords),
                ]
                if same(made, (live.func, live.args, live.keywords)):
                    return live
                return functools.partial(made[0], *made[1], **made[2])
            case _:
                return decode_scalar(path, node)

    def _list(self, path: str, node: Node, live: Any) -> Any:
        items = node[-1]
        fresh: Any = [] if node[0] == "list" else collections.deque(maxlen=node[1])
        other_end = getattr(live, "maxlen", None) != getattr(fresh, "maxlen", None)
        if type(live) is not type(fresh) or other_end or self._is_made(live):
            live = fresh
        self._make(path, live)
        old = list(live)
        made = []
        for at, item in enumerate(items):
            strict = "parameter" if at < len(old) and isinstance(old[at], nn.Parameter) else ""
            made.append(self.value(f"{path}[{at}]", item, old[at] if at < len(old) else MISSING, strict))
        live.clear()
        live.extend(made)
        return live

    def _set(self, path: str, node: Node, live: Any) -> Any:
        if type(live) is not set or self._is_made(live):
            live = set()
        self._make(path, live)
        known = {str(encode_key(key)): key for key in live}
        made = {self._key(path, key, known) for key in node[1]}
        if made != live:
            live.clear()
            live.update(made)
        return live

    def _dict(self, path: str, node: Node, live: Any) -> Any:
        _, label, factory, pairs, attributes = node
        if live is MISSING or class_label(type(live)) != label or self._is_made(live):
            cls = self._known(path, label)
            live = cls.__new__(cls)
            if factory is not None:
                live.default_factory = self._known(path, factory)
        self._make(path, live)
        known = {str(encode_key(key)): key for key in live}
        made = {}
        for encoded, child in pairs:
            key = self._key(path, encoded, known)
            made[key] = self.value(f"{path}[{key!r}]", child, live.get(key, MISSING))
        if list(map(id, live.values())) != list(map(id, made.values())) or list(live) != list(made):
            live.clear()
            live.update(made)
        if attributes is not None:
            self._attributes(path, attributes, live.__dict__, kinds.skips(live))
        return live

    def _object(self, path: str, label: str, pairs: list[Node], live: Any) -> Any:
        if live is MISSING or class_label(type(live)) != label or self._is_made(live):
            if path in self._parts:
                self._same_class(path, label, live)
            cls = self._known(path, label)
            live = cls() if cls is types.SimpleNamespace else object.__new__(cls)
        self._make(path, live)
        self._attributes(path, pairs, live.__dict__, kinds.skips(live))
        return live

    def _module(self, path: str, node: Node, live: Any) -> Any:
        _, label, parameters, buffers, modules, hidden, attributes = node
        self._same_class(path, label, live)
        if self._is_made(live):
            raise StateError(path, "is one module here and two on the holder", _SAME_MEND)
        self._make(path, live)
        fixed = (("parameters", parameters, live._parameters), ("modules", modules, live._modules))
        for kind, pairs, held in fixed:
            names = [name for name, _ in pairs]
            if list(held) != names:
                raise StateError(path, f"has {kind} {list(held)}, the holder has {names}", _SAME_MEND)
        self._named(path, parameters, live._parameters, "parameter")
        self._named(path, buffers, live._buffers, "buffer")
        self._named(path, modules, live._modules, "")
        live._non_persistent_buffers_set = set(hidden)
        self._attributes(path, attributes, live.__dict__, kinds.skips(live))
        return live

    def _named(self, path: str, pairs: list[Node], held: dict[str, Any], strict: str) -> None:
        names = {name for name, _ in pairs}
        for name in [name for name in held if name not in names]:
            del held[name]
        for name, child in pairs:
            where, live = f"{path}.{name}", held.get(name, MISSING)
            if strict == "parameter" and (live is None) != (child == ["none"]):
                raise StateError(where, "is a parameter on one rank and None on the other", _SAME_MEND)
            held[name] = self.value(where, child, live, strict)
        ordered = {name: held[name] for name, _ in pairs}
        if list(held) != list(ordered):
            held.clear()
            held.update(ordered)

    def _attributes(
        self, path: str, pairs: list[Node], held: dict[str, Any], skipped: frozenset[str]
    ) -> None:
        names = {name for name, _ in pairs} | skipped | {kinds.SCALER_STAGES}
        for name in [name for name in held if name not in names]:
            del held[name]
        for name, child in pairs:
            live = held.get(name, MISSING)
            made = self.value(f"{path}.{name}", child, live)
            if made is not live:
                held[name] = made

    def _optimizer(self, path: str, node: Node, live: Any) -> Any:
        _, label, groups, state, attributes = node
        self._same_class(path, label, live)
        assert isinstance(live, Optimizer)
        self._make(path, live)
        counts = [len({key[1]: child for key, child in group[3]}["params"][1]) for group in groups[1]]
        mine = [len(group["params"]) for group in live.param_groups]
        if mine != counts[: len(mine)]:
            problem = f"have {mine} parameters, the holder's have {counts}"
            raise StateError(f"{path}.param_groups", problem, _SAME_MEND)
        self.value(f"{path}.param_groups", groups, live.param_groups)
        entries = {}
        for group, index, child in state:
            param = live.param_groups[group]["params"][index]
            with self._placing.near(param):
                where = f"{path}.state[{group}][{index}]"
                entries[param] = self.value(where, child, live.state.get(param, MISSING))
        live.state.clear()
        live.state.update(entries)
        self._attributes(path, attributes, live.__dict__, kinds.skips(live))
        return live

    def _key(self, path: str, node: Node, known: dict[str, Any]) -> Any:
        match node:
            case ["tuple", items]:
                return tuple(self._key(path, item, known) for item in items)
            case ["constant", label]:
                if str(node) not in known:
                    raise StateError(path, f"holder has key {label} here, which can't be moved", _LATE_MEND)
                return known[str(node)]
            case _:
                return decode_scalar(path, node)

    def _make(self, path: str, live: Any) -> None:
        self._made[path] = live
        self._made_ids.add(id(live))

    def _is_made(self, live: Any) -> bool:
        return id(live) in self._made_ids

    def _same_class(self, path: str, label: str, live: Any) -> None:
        if live is MISSING or class_label(type(live)) != label:
            shown = "nothing" if live is MISSING else class_label(type(live))
            raise StateError(path, f"is {shown}, the holder has {label}", _SAME_MEND)

    @staticmethod
    def _known(path: str, label: str) -> Any:
        found: Callable[..., Any] | None = find_class(label)
        if found is None:
            problem = f"the holder has a {label} here, which this process doesn't know"
            raise StateError(path, problem, f"import {label.partition(':')[0]} before the state is received")
        return found
