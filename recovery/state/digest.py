"""Digests: one number for a whole state, equal on every rank that holds the same one.

A digest covers structure, exact leaves, and for each tensor path, dtype, shape, strides, gradient flag,
aliasing and bytes. It does not cover device and address.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import xxhash
from torch import Tensor

from recovery.state.leaves import Node
from recovery.state.memory import is_dense, live_bytes

_UNDIGESTED = frozenset({"device", "region", "bytes"})


@dataclass(frozen=True)
class Digest:
    """xxh3-128 in hex.

    Attributes:
        total: of the whole state.
        parts: of each protected object, by name. Memory that parts share counts for the first one.
    """

    total: str
    parts: Mapping[str, str]


def digest_tensor(tensor: Tensor) -> str:
    """Digest the elements of one tensor, in the order that its layout has; gaps between them don't count."""
    elements = tensor if is_dense(tensor) else tensor.clone(memory_format=torch.contiguous_format)
    if elements.device.type != "cpu":
        elements = live_bytes(elements).cpu()
    size = elements.nbytes
    if size == 0:
        return xxhash.xxh3_128_hexdigest(b"")
    return xxhash.xxh3_128_hexdigest((ctypes.c_ubyte * size).from_address(elements.data_ptr()))


def digest_parts(parts: Mapping[str, Node], tensors: list[dict[str, Any]]) -> Digest:
    """Digest described parts and the specs of their tensors."""
    by_part: dict[str, list[dict[str, Any]]] = {name: [] for name in parts}
    for spec in tensors:
        by_part[spec["part"]].append({key: value for key, value in spec.items() if key not in _UNDIGESTED})
    digests = {name: _digest_json([node, by_part[name]]) for name, node in parts.items()}
    return Digest(_digest_json(list(digests.items())), digests)


def _digest_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return xxhash.xxh3_128(text.encode()).hexdigest()
