"""The faults of the network between nodes. `base` says what they have in common."""

from __future__ import annotations

from injectors.fault import Fault
from injectors.net.bandwidth import NetBandwidth
from injectors.net.delay import NetDelay
from injectors.net.drop_one_way import NetDropOneWay
from injectors.net.half_open import NetHalfOpen
from injectors.net.link_down import NetLinkDown
from injectors.net.loss import NetLoss
from injectors.net.partition import NetPartition
from injectors.net.reset import NetReset

FAULTS: tuple[type[Fault], ...] = (
    NetPartition,
    NetDropOneWay,
    NetDelay,
    NetLoss,
    NetReset,
    NetBandwidth,
    NetHalfOpen,
    NetLinkDown,
)
