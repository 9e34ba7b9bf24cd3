"""One walk over a protected object: what it is made of, how to watch it, which tensors it holds.

Rules:
- Parameters, all buffers (persistent or not), plain attributes of modules (numbers, strings, None, containers
  of them, tensors, NumPy arrays, objects that are all __dict__) and the training flag are state.
- Functions, classes, modules, devices, loggers, locks and weak references are constants. State hidden in a
  closure, in a class or on a parameter's own attributes is not seen.
- An attribute named in the class attribute `recovery_ignored` of its owner is not state.
- Whatever is left (iterators, generators of random numbers, files, objects with state in C or in slots) is
  refused by name.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from recovery.state import kinds
from recovery.state.errors import StateError
from recovery.state.leaves import (
    Node,
    class_label,
    constant_label,
    encode_scalar,
    ignore_hint,
    refuse_rank_local,
)
from recovery.state.memory import check_tensor
from recovery.state.watch import Watch, watch_attributes, watch_identities, watch_items, watch_mapping


class Walk:
    """The walk over one protected object (a part).

    Attributes:
        node: the structure and its leaves, JSON-able; tensors are named by path.
        watches: every mutable container met.
        paths, tensors: the distinct tensors met here first, in walk order (a NumPy array as a tensor on its
            memory).
        visits: in how many places of this part each tensor was met, by the path of the first.
        shared: ids of the containers that were met more than once.
        modules: every module met.
        root: what `state_dict()` returned for a part that is only known by that protocol.
    """

    def __init__(
        self, name: str, obj: object, parts: dict[str, object] | None, known: dict[int, str]
    ) -> None:
        """Walk `obj`.

        Args:
            name: of the part; the paths begin with it.
            parts: all protected objects, so that references between them are recognised; None while they
                are not all known.
            known: path by id of the tensors met in earlier parts; those met here are added.
        """
        self.name = name
        self.watches: list[Watch] = []
        self.paths: list[str] = []
        self.tensors: list[Tensor] = []
        self.visits: dict[str, int] = {}
        self.shared: set[int] = set()
        self.modules: list[nn.Module] = []
        self.root: Any = None
        self._parts = {id(part): key for key, part in (parts or {}).items()}
        self._is_trial = parts is None
        self._known = known
        self._seen: dict[int, str] = {}
        self._kept: list[object] = []  # ids are only good while the objects live
        match kinds.kind_of(name, obj):
            case "module":
                assert isinstance(obj, nn.Module)
                self.node = self._module(name, obj)
            case "optimizer":
                assert isinstance(obj, Optimizer)
                self.node = self._optimizer(name, obj)
            case "object":
                self.node = self._object(name, obj)
            case _:
                self.root = _state_dict(name, obj)
                self.node = ["protocol", class_label(type(obj)), self.value(name, self.root)]

    def value(self, path: str, value: Any) -> Node:
        """Describe any value and whatever it holds.

        Raises:
            StateError: something in it is not copied exactly.
        """
        scalar = encode_scalar(value)
        if scalar is not None:
            return scalar
        if isinstance(value, Tensor):
            return ["tensor", self._tensor(path, value, value)]
        if kinds.is_array(value):
            if not value.flags.writeable:  # often a mapped file: a constant
                return ["constant", f"read-only array {value.dtype} {value.shape}"]
            return ["array", self._array(path, value)]
        if id(value) in self._seen:
            self.shared.add(id(value))
            return ["same", self._seen[id(value)]]
        if isinstance(value, nn.Module):
            return self._module(path, value)
        if id(value) in self._parts:
            return ["part", self._parts[id(value)]]
        if isinstance(value, Optimizer):
            if self._is_trial:
                return ["part", "?"]
            raise StateError(
                path, f"refers to a {type(value).__name__} that is not protected", "protect it too"
            )
        label = constant_label(value)
        if label is not None:
            return ["constant", label]
        refuse_rank_local(path, value)
        return self._container(path, value)

    def _tensor(self, path: str, owner: object, tensor: Tensor) -> str:
        if id(owner) not in self._known:
            check_tensor(path, tensor)
            self._known[id(owner)] = path
            self._kept.append(owner)
            self.paths.append(path)
            self.tensors.append(tensor)
        first = self._known[id(owner)]
        self.visits[first] = self.visits.get(first, 0) + 1
        return first

    def found(self) -> Iterator[tuple[str, Tensor, int]]:
        """(path, tensor, number of places that hold it) of the tensors met here first."""
        for path, tensor in zip(self.paths, self.tensors, strict=True):
            yield path, tensor, self.visits[path]

    def _array(self, path: str, array: Any) -> str:
        try:
            tensor = torch.from_numpy(array)
        except (TypeError, ValueError) as error:
            problem = f"is a NumPy array that can't be copied exactly ({error})"
            raise StateError(path, problem, "use a numeric dtype and positive strides") from error
        return self._tensor(path, array, tensor)

    def _meet(self, path: str, value: object) -> None:
        self._seen[id(value)] = path
        self._kept.append(value)

    def _container(self, path: str, value: Any) -> Node:
        if isinstance(value, tuple):
            return self._tuple(path, value)
        if isinstance(value, frozenset):
            return ["frozenset", self._keys(path, value)]
        if isinstance(value, functools.partial):
            keywords = self.value(f"{path}.keywords", value.keywords)
            return [
                "partial",
                self.value(f"{path}.func", value.func),
                self._tuple(f"{path}.args", value.args),
                keywords,
            ]
        if isinstance(value, types.MethodType):
            return ["method", value.__func__.__qualname__, self.value(f"{path}.__self__", value.__self__)]
        self._meet(path, value)
        if type(value) in (list, collections.deque):
            self.watches.append(watch_items(value))
            items = [self.value(f"{path}[{index}]", item) for index, item in enumerate(value)]
            return ["list", items] if type(value) is list else ["deque", value.maxlen, items]
        if type(value) is set:
            self.watches.append(watch_items(value))
            return ["set", self._keys(path, value)]
        if type(value) in kinds.KNOWN_DICTS or kinds.is_python_subclass(value, dict):
            return self._dict(path, value)
        if kinds.is_attributes_only(value):
            return self._object(path, value)
        if kinds.is_frozen_with_slots(value):
            names = sorted(field.name for field in dataclasses.fields(value))
            pairs = [[name, self.value(f"{path}.{name}", getattr(value, name))] for name in names]
            return ["frozen", class_label(type(value)), pairs]
        kind = class_label(type(value)).replace(":", ".").removeprefix("builtins.")
        raise StateError(
            path, f"{kind} is not copied exactly", f"store plain values or tensors, or {ignore_hint(path)}"
        )

    def _tuple(self, path: str, value: tuple[Any, ...]) -> Node:
        items = [self.value(f"{path}[{index}]", item) for index, item in enumerate(value)]
        if type(value) is tuple:
            return ["tuple", items]
        if type(value) is torch.Size:
            return ["size", list(value)]
        if hasattr(type(value), "_make") and hasattr(type(value), "_fields"):
            return ["named", class_label(type(value)), items]
        raise StateError(path, f"{class_label(type(value))} is not copied exactly", "store a plain tuple")

    def _dict(self, path: str, value: dict[Any, Any]) -> Node:
        self.watches.append(watch_mapping(value))
        factory = getattr(value, "default_factory", None)
        pairs = [[self._key(path, key), self.value(f"{path}[{key!r}]", item)] for key, item in value.items()]
        attributes = None
        if getattr(value, "__dict__", None) and type(value) not in kinds.KNOWN_DICTS:
            attributes = self._attributes(path, value, value.__dict__, kinds.skips(value))
        return ["dict", class_label(type(value)), factory and constant_label(factory), pairs, attributes]

    def _keys(self, path: str, value: Any) -> list[Node]:
        return sorted((self._key(path, item) for item in value), key=json.dumps)

    def _key(self, path: str, key: object) -> Node:
        found = encode_key(key)
        if found is None:
            problem = f"has a key or member of type {type(key).__name__}, which means nothing to another rank"
            raise StateError(path, problem, f"use strings, numbers or enums, or {ignore_hint(path)}")
        return found

    def _attributes(
        self, path: str, owner: object, values: dict[str, Any], skipped: frozenset[str]
    ) -> list[Node]:
        names = sorted(name for name in values if name not in skipped)
        self.watches.append(watch_attributes(values, names, _skipper(skipped)))
        pairs = []
        for name in names:
            if name == kinds.SCALER_STAGES and isinstance(owner, GradScaler):
                kinds.check_scaler(path, owner)
                self.watches.append(watch_mapping(values[name]))
            else:
                pairs.append([name, self.value(f"{path}.{name}", values[name])])
        return pairs

    def _object(self, path: str, value: Any) -> Node:
        self._meet(path, value)
        pairs = self._attributes(path, value, value.__dict__, kinds.skips(value))
        return ["object", class_label(type(value)), pairs]

    def _module(self, path: str, module: nn.Module) -> Node:
        self._meet(path, module)
        if isinstance(module, torch.jit.ScriptModule):
            raise StateError(
                path, "is a scripted module, which keeps its state in C++", "use the module as it was written"
            )
        self.modules.append(module)
        parts: list[list[Node]] = []
        for values in (module._parameters, module._buffers, module._modules):
            self.watches.append(watch_mapping(values))
            parts.append([[name, self.value(f"{path}.{name}", value)] for name, value in values.items()])
        attributes = self._attributes(path, module, module.__dict__, kinds.skips(module))
        hidden = sorted(module._non_persistent_buffers_set)
        return ["module", class_label(type(module)), *parts, hidden, attributes]

    def _optimizer(self, path: str, optimizer: Optimizer) -> Node:
        self._meet(path, optimizer)
        groups = self.value(f"{path}.param_groups", optimizer.param_groups)
        places = {}
        for group_index, group in enumerate(optimizer.param_groups):
            for index, param in enumerate(group["params"]):
                places[id(param)] = (group_index, index)
        extra = [key for key in optimizer.state if id(key) not in places]
        if extra:
            problem = f"has an entry for a {type(extra[0]).__name__} that is in none of its param_groups"
            raise StateError(f"{path}.state", problem, "keep such values as attributes of the optimizer")
        self.watches.append(watch_identities(optimizer.state))
        state = []
        for param, values in optimizer.state.items():
            group_index, index = places[id(param)]
            state.append([group_index, index, self.value(f"{path}.state[{group_index}][{index}]", values)])
        state.sort(key=lambda entry: entry[:2])
        attributes = self._attributes(path, optimizer, optimizer.__dict__, kinds.skips(optimizer))
        return ["optimizer", class_label(type(optimizer)), groups, state, attributes]


def encode_key(key: object) -> Node | None:
    """Write the key of a dict or a member of a set; None when it means nothing in another process."""
    if type(key) is tuple:
        items = [encode_key(item) for item in key]
        return None if None in items else ["tuple", items]
    scalar = encode_scalar(key)
    if scalar is not None:
        return scalar
    label = constant_label(key)
    return None if label is None else ["constant", label]


def _skipper(skipped: frozenset[str]) -> Callable[[str], bool]:
    return lambda name: name in skipped or name.startswith("_optimizer_") or name == "_compiled_call_impl"


def _state_dict(name: str, obj: Any) -> Any:
    try:
        return obj.state_dict()
    except Exception as error:
        raise StateError(name, f"state_dict() raised {error!r}", "make it work at every step") from error
