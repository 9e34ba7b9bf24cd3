"""What a Python value is to the state: an exact leaf, a constant, or a refusal.

A leaf is written as a JSON list that starts with its kind, so that `1`, `1.0`, `True` and `"1"` stay apart
and floats keep their last bit. A constant cannot change and is neither digested by value nor moved: the
receiver must hold one with the same label. Everything else is a container (see `walk`) or refused by name.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import io
import logging
import pathlib
import random
import re
import sys
import threading
import types
import uuid
import weakref
from typing import Any

import torch

from recovery.state.errors import StateError

Node = list[Any]  # a JSON list: [kind, ...]

SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes, torch.dtype})

# Immutable in themselves, or by convention without training state: code, and handles of the process.
_CONSTANTS: tuple[type, ...] = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ModuleType,
    type,
    property,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.finfo,
    torch.iinfo,
    torch.Stream,
    torch.Event,
    torch.jit.ScriptFunction,
    logging.Logger,
    logging.LoggerAdapter,
    weakref.ref,
    type(threading.Lock()),
    type(threading.RLock()),
    type(Ellipsis),
    type(NotImplemented),
)
# Immutable values: their repr is the label, so that two different ones are noticed.
_VALUES: tuple[type, ...] = (
    slice,
    range,
    re.Pattern,
    pathlib.PurePath,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
)
_RANK_LOCAL_NAMES = frozenset(
    {"DataLoader", "StatefulDataLoader", "_BaseDataLoaderIter", "BitGenerator", "RandomState"}
)
_RANDOM_MEND = (
    "derive what it draws from (run.seed, run.rank, step) at the start of each step instead of keeping it"
)
_ITERATOR_MEND = (
    "address data by the step index: derive the batch from (run.seed, run.rank, step), don't keep an iterator"
)


def class_label(cls: type) -> str:
    """Name a class the same way in every process."""
    return f"{cls.__module__}:{cls.__qualname__}"


def find_class(label: str) -> Any:
    """Find what `class_label` named among the modules that are already imported, or None. Imports nothing."""
    module_name, _, qualname = label.partition(":")
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def is_scalar(value: object) -> bool:
    """Whether `value` is an exact immutable leaf; a tuple of leaves counts as one."""
    cls = type(value)
    if cls in SCALARS or isinstance(value, enum.Enum) or _is_numpy_scalar(value):
        return True
    return cls is tuple and all(is_scalar(item) for item in value)  # type: ignore[attr-defined]


def encode_scalar(value: Any) -> Node | None:
    """Write an exact leaf as a node; None when `value` is not one."""
    cls = type(value)
    if value is None:
        return ["none"]
    if cls is bool or cls is int or cls is str:
        return [cls.__name__, value]
    if cls is float:
        return ["float", value.hex()]
    if cls is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if cls is bytes:
        return ["bytes", value.hex()]
    if cls is torch.dtype:
        return ["dtype", str(value).removeprefix("torch.")]
    if isinstance(value, enum.Flag):
        return ["flag", class_label(cls), value.value]  # a combination of flags has no name of its own
    if isinstance(value, enum.Enum):
        return ["enum", class_label(cls), value.name]
    if _is_numpy_scalar(value):
        return ["numpy", str(value.dtype), value.tobytes().hex()]
    return None


def decode_scalar(path: str, node: Node) -> Any:
    """Give back the value that `encode_scalar` wrote."""
    match node:
        case ["none"]:
            return None
        case ["bool" | "int" | "str", value]:
            return value
        case ["float", text]:
            return float.fromhex(text)
        case ["complex", real, imag]:
            return complex(float.fromhex(real), float.fromhex(imag))
        case ["bytes", text]:
            return bytes.fromhex(text)
        case ["dtype", name]:
            return getattr(torch, name)
        case ["enum", label, name]:
            return _found(path, label)[name]
        case ["flag", label, value]:
            return _found(path, label)(value)
        case ["numpy", dtype, text]:
            numpy = sys.modules.get("numpy")
            if numpy is None:
                raise StateError(
                    path, "the holder has a NumPy scalar here and NumPy isn't imported", "import it"
                )
            return numpy.frombuffer(bytes.fromhex(text), dtype=dtype)[0]
        case _:
            raise StateError(
                path, f"unknown leaf {node!r} in the manifest", "run one version of recovery on all ranks"
            )


def constant_label(value: object) -> str | None:
    """Label a value that can't change; None when it can."""
    if isinstance(value, _VALUES):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
        return f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', value.__name__)}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, _CONSTANTS) or _has_base(value, {"ProcessGroup", "DeviceMesh"}):
        return type(value).__name__
    if isinstance(value, functools._lru_cache_wrapper):
        return "lru_cache"  # a cache may be lost; its function is code
    return None


def refuse_rank_local(path: str, value: object) -> None:
    """Raise StateError when `value` is state that only this rank holds, or a handle that can't be copied."""
    kind = class_label(type(value)).replace(":", ".").removeprefix("builtins.")
    if isinstance(value, (io.IOBase, threading.Thread)):
        raise StateError(
            path, f"{kind} can't be copied", "keep it out of protected objects, or " + ignore_hint(path)
        )
    lost = f"{kind} is rank-local state which no other rank could give back"
    numpy_generator = type(value).__name__ == "Generator" and type(value).__module__.startswith("numpy")
    if isinstance(value, (torch.Generator, random.Random)) or numpy_generator:
        raise StateError(path, lost, _RANDOM_MEND)
    if _has_base(value, {"BitGenerator", "RandomState"}):
        raise StateError(path, lost, _RANDOM_MEND)
    if hasattr(type(value), "__next__") or _has_base(value, _RANK_LOCAL_NAMES):
        raise StateError(path, lost, _ITERATOR_MEND)


def ignore_hint(path: str) -> str:
    """The way to say that an attribute is not state."""
    name = re.split(r"[.\[]", path)[-1].rstrip("]'\"")
    return f"name it in the class attribute `recovery_ignored = ({name!r},)` of its owner if it is not state"


def _has_base(value: object, names: set[str] | frozenset[str]) -> bool:
    return any(cls.__name__ in names for cls in type(value).__mro__)


def _is_numpy_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic) and not value.dtype.hasobject


def _found(path: str, label: str) -> Any:
    cls = find_class(label)
    if cls is None:
        mend = f"import {label.partition(':')[0]} before the state is received"
        raise StateError(path, f"the holder has a {label} here, which this process doesn't know", mend)
    return cls
