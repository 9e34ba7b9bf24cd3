"""How what a fault creates in a node is marked as ours: by name, and by a remark that says whose it is."""

from __future__ import annotations

import hashlib
import re

# The longest name that the kernel takes for an interface is 15 bytes.
_LINK = "tc"


def name(run: str, fault: str) -> str:
    """The name of a fault's nft table: `torch_chaos_RUN_FAULT`."""
    return "torch_chaos_" + re.sub(r"[^A-Za-z0-9_]", "_", f"{run}_{fault}")[:180]


def remark(run: str, fault: str) -> str:
    """What stands in a comment or an alias of everything that a fault creates."""
    return f"torch-chaos run {run} fault {fault}".replace('"', "'")[:120]


def _digest(run: str, fault: str) -> str:
    return hashlib.sha256(f"{run}\0{fault}".encode()).hexdigest()


def link(run: str, fault: str) -> str:
    """The name of a fault's own interface in a node."""
    return _LINK + _digest(run, fault)[:12]


def handle(run: str, fault: str) -> str:
    """The handle of a fault's qdisc, `hhhh:`. The kernel gives out 8001 and up itself, so ours stay below."""
    return f"{0x1000 + int(_digest(run, fault)[:8], 16) % 0x6FFF:x}:"
