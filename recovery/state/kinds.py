"""What can be protected, and which of its attributes belong to torch's machinery and not to the state."""

from __future__ import annotations

import collections
import dataclasses
import sys
from typing import Any

import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler, OptState
from torch.nn.utils.prune import BasePruningMethod
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from recovery.state.errors import StateError
from recovery.state.leaves import refuse_rank_local

_MODULE_MACHINERY = frozenset(nn.Module().__dict__) - {"training"} | {"_compiled_call_impl", "forward"}
_OPTIMIZER_MACHINERY = frozenset({"state", "param_groups", "step", "zero_grad", "profile_hook_step"}) | {
    "_hook_for_profile",
    "_patch_step_function",
    "_zero_grad_profile_name",
    "_warned_capturable_if_run_uncaptured",
    "_opt_called",
}
SCALER_STAGES = "_per_optimizer_states"  # keyed by id(optimizer): means nothing in another process
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "OptimizedModule")


class _Plain:
    """The memory layout of an object that is all __dict__."""


def unwrap(obj: object) -> object:
    """The module inside DDP or torch.compile's wrappers, which are rebuilt and hold no state of their own."""
    while isinstance(obj, nn.Module) and type(obj).__name__ in _WRAPPERS:
        obj = obj._orig_mod if type(obj).__name__ == "OptimizedModule" else obj.module
    return obj


def kind_of(name: str, obj: object) -> str:
    """How a protected object is walked: module, optimizer, object or protocol (state_dict / load_state_dict).

    Raises:
        StateError: its state is rank-local, sharded, or not reachable.
    """
    refuse_rank_local(name, obj)
    label = f"{type(obj).__module__}.{type(obj).__qualname__}"
    if isinstance(obj, torch.jit.ScriptModule):
        raise StateError(name, f"{label} keeps its state in C++", "protect the module that was scripted")
    if any(cls.__name__ == "ZeroRedundancyOptimizer" for cls in type(obj).__mro__):
        raise StateError(
            name, f"{label} shards its state over the ranks", "use the plain optimizer that it wraps"
        )
    if isinstance(obj, nn.Module):
        return "module"
    if isinstance(obj, Optimizer):
        return "optimizer"
    if isinstance(obj, (LRScheduler, GradScaler)):
        return "object"
    if callable(getattr(obj, "state_dict", None)) and callable(getattr(obj, "load_state_dict", None)):
        return "protocol"
    raise StateError(
        name,
        f"{label} can't be protected: it is no module, optimizer, scheduler or scaler "
        "and has no state_dict and load_state_dict",
        "give it both methods, or protect the objects that it is made of",
    )


def skips(obj: object) -> frozenset[str]:
    """Names in an object's __dict__ that are not its state."""
    ignored = getattr(type(obj), "recovery_ignored", ())
    if not isinstance(ignored, (tuple, list, set, frozenset)):
        problem = f"recovery_ignored is {ignored!r}"
        raise StateError(type(obj).__qualname__, problem, "make it a tuple of attribute names")
    names = frozenset(ignored)
    if isinstance(obj, nn.Module):
        if type(obj).__name__ in _WRAPPERS:
            return names | frozenset(obj.__dict__) - {"training"}
        return names | _MODULE_MACHINERY | _derived(obj)
    if isinstance(obj, Optimizer):
        return names | _OPTIMIZER_MACHINERY | {key for key in obj.__dict__ if key.startswith("_optimizer_")}
    return names


def _derived(module: nn.Module) -> set[str]:
    """Attributes that a hook computes anew from parameters before each forward."""
    if not module._forward_pre_hooks:
        return set()
    hooks = module._forward_pre_hooks.values()
    names = {hook.name for hook in hooks if isinstance(hook, (WeightNorm, SpectralNorm))}
    return names | {hook._tensor_name for hook in hooks if isinstance(hook, BasePruningMethod)}


def check_scaler(path: str, scaler: GradScaler) -> None:
    """Raise StateError when a GradScaler is in the middle of its step."""
    for stages in scaler.__dict__.get(SCALER_STAGES, {}).values():
        if stages["stage"] is not OptState.READY:
            problem = "has unscaled or stepped without update()"
            raise StateError(path, problem, "call scaler.update() before the step function returns")


def is_array(value: object) -> bool:
    """Whether `value` is a NumPy array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_attributes_only(value: object) -> bool:
    """Whether all there is to `value` is its __dict__: a Python class without slots or state in C."""
    cls = type(value)
    if not isinstance(getattr(value, "__dict__", None), dict) or cls.__itemsize__:
        return False
    return cls.__basicsize__ <= _Plain.__basicsize__


def is_frozen_with_slots(value: Any) -> bool:
    """Whether `value` is a frozen dataclass with all its fields in slots."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type) or hasattr(value, "__dict__"):
        return False
    return bool(type(value).__dataclass_params__.frozen)  # type: ignore[attr-defined]


def is_python_subclass(value: object, base: type) -> bool:
    """Whether `value` adds nothing in C to a built-in container (attributes in __dict__ are allowed)."""
    if not isinstance(value, base):
        return False

    class Reference(base):  # type: ignore[misc]
        pass

    return bool(type(value).__basicsize__ <= Reference.__basicsize__)


KNOWN_DICTS: tuple[type, ...] = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)
