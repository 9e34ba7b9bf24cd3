from __future__ import annotations

from injectors.fault import Fault
from injectors.storage.bitflip import StorageBitflip
from injectors.storage.eio import StorageEio
from injectors.storage.enospc import StorageEnospc
from injectors.storage.slow import StorageSlow
from injectors.storage.torn import StorageTorn
from injectors.storage.truncate import StorageTruncate

FAULTS: tuple[type[Fault], ...] = (
    StorageEnospc,
    StorageEio,
    StorageSlow,
    StorageTorn,
    StorageBitflip,
    StorageTruncate,
)
