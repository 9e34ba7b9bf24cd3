"""Faults of whole nodes: a node is its processes and its network together."""

from __future__ import annotations

from injectors.fault import Fault
from injectors.node.isolate import NodeIsolate
from injectors.node.kill import NodeKill
from injectors.node.preempt import NodePreempt
from injectors.node.return_ import NodeReturn

FAULTS: tuple[type[Fault], ...] = (NodeKill, NodePreempt, NodeIsolate, NodeReturn)
