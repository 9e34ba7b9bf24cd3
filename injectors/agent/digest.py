"""Digests of the training state, for targets that do not report their own.

The fast digest is used where the target has it installed; `agent.installed` names the one in use.
Digests are compared within one run only.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core import Agent

try:
    import xxhash
except ImportError:
    xxhash = None  # type: ignore[assignment]

NAME = "blake2b" if xxhash is None else "xxh3_128"


def _new() -> Any:
    return hashlib.blake2b(digest_size=16) if xxhash is None else xxhash.xxh3_128()


def note_loss(agent: Agent, tensors: Any) -> None:
    """Keep the number that backward starts from, if it is one number and reading it costs nothing."""
    agent.loss = None
    if getattr(tensors, "numel", lambda: 0)() == 1 and tensors.device.type == "cpu":
        agent.loss = float(tensors.detach())


def write_commit(agent: Agent, skipped: bool) -> None:
    """Write `step.commit` for the step that has just ended, with digests if the run wants them."""
    fields: dict[str, Any] = {"rank": agent.rank, "step": agent.step, "generation": agent.generation}
    if skipped:
        fields["skipped"] = True
    if agent.config.get("digest"):
        parts, local = state_parts(agent)
        fields["parts"] = parts
        fields["digest"] = _digest_text(parts)
        fields["local"] = local or None
        fields["rng"] = rng_digest()
    agent.events.write("step.commit", loss=agent.loss, **fields)
    agent.loss = None


def state_parts(agent: Agent) -> tuple[dict[str, str], list[str]]:
    """Digest of each part of the state, and the parts that hold a shard and so differ between ranks."""
    params, state, hyper, buffers = _new(), _new(), _new(), _new()
    local = set()
    for optimizer in agent.optimizers:
        if type(optimizer).__name__ == "ZeroRedundancyOptimizer":
            local.add("optimizer")
        for group in optimizer.param_groups:
            _add_text(hyper, {key: value for key, value in group.items() if key != "params"})
            for tensor in group["params"]:
                if _add_tensor(params, tensor):
                    local.update(("params", "optimizer"))
                _add_state(state, optimizer.state.get(tensor))
    for name, buffer in agent.module.named_buffers() if agent.module is not None else ():
        buffers.update(name.encode())
        _add_tensor(buffers, buffer)
    parts = {"params": params, "optimizer": state, "buffers": buffers, "hyper": hyper}
    return {name: part.hexdigest() for name, part in parts.items()}, sorted(local)


def rng_digest() -> str:
    """Digest of the random states of torch (CPU), Python and, where it is loaded, NumPy."""
    found = _new()
    torch = sys.modules["torch"]
    _add_tensor(found, torch.get_rng_state())
    found.update(repr(random.getstate()).encode())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found.update(repr(numpy.random.get_state()[1:]).encode())
        found.update(numpy.random.get_state()[1].tobytes())
    return str(found.hexdigest())


def _add_state(found: Any, state: Any) -> None:
    if not isinstance(state, dict):
        return
    for name in sorted(state, key=str):
        value = state[name]
        found.update(str(name).encode())
        if hasattr(value, "data_ptr"):
            _add_tensor(found, value)
        else:
            _add_text(found, value)


def _add_tensor(found: Any, tensor: Any) -> bool:
    """Add dtype, shape and bytes; True if the tensor is a shard of a larger one."""
    shard = getattr(tensor, "_local_tensor", None)
    whole = (shard if shard is not None else tensor).detach()
    found.update(f"{whole.dtype}{tuple(whole.shape)}".encode())
    data = whole.cpu().contiguous()
    size = data.numel() * data.element_size()
    if size:
        found.update((ctypes.c_char * size).from_address(data.data_ptr()))
    return shard is not None


def _add_text(found: Any, value: Any) -> None:
    found.update(json.dumps(value, sort_keys=True, default=_plain).encode())


def _plain(value: Any) -> Any:
    """A learning rate may be a tensor; anything else that is no number counts by its type."""
    return float(value) if hasattr(value, "item") and value.numel() == 1 else type(value).__name__


def _digest_text(parts: dict[str, str]) -> str:
    found = _new()
    _add_text(found, parts)
    return str(found.hexdigest())
