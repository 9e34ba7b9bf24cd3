"""The faults of the network between nodes. `base` says what they have in common."""

from __future__ import annotations

from injectors.fault import Fault
from injectors.net.drop_one_way import NetDropOneWay
from injectors.net.partition import NetPartition

FAULTS: tuple[type[Fault], ...] = (
    NetPartition,
    NetDropOneWay,
)
