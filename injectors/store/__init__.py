"""Faults of the TCPStore that a job meets through: its host killed, frozen or slow, its keys stale."""

from __future__ import annotations

from injectors.fault import Fault
from injectors.store.delay import StoreDelay
from injectors.store.kill import StoreKill
from injectors.store.stale_key import StoreStaleKey
from injectors.store.stop import StoreStop

FAULTS: tuple[type[Fault], ...] = (StoreKill, StoreStop, StoreDelay, StoreStaleKey)
