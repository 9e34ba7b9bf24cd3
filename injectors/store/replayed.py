"""Earlier values of a store's keys: where they were recorded, how they are put back, and what undoes that.

The agent of a rank records every key of the store when its default group is made, once in each life of the
job (`injectors/agent/stores.py`). The value that a replay overwrites is kept in the store itself, under a key
of ours, so that undo needs nothing but the store, and finds nothing to do where the store is gone.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from injectors import signals
from injectors.fault import FaultError, Victim
from injectors.marks import environment
from injectors.store import wire
from injectors.store.host import StoreHost

AGENT = "TORCH_CHAOS_AGENT"
OURS = "torch-chaos/"
"""Every key that a fault creates begins so; no fault ever replays one."""


@dataclass(frozen=True)
class Recording:
    """The keys of a store as they were at an earlier time."""

    generation: int
    keys: Mapping[str, bytes]

    def matching(self, pattern: str) -> dict[str, bytes]:
        """The keys that a shell pattern matches."""
        return {
            key: value
            for key, value in self.keys.items()
            if fnmatch.fnmatchcase(key, pattern) and not key.startswith(OURS)
        }


def recorded(victim: Victim) -> Recording:
    """What the victim's rank recorded in the life before this one; else at the start of this one.

    Raises:
        FaultError: nothing was recorded, so there is no earlier value to replay.
    """
    config = environment(victim.pid).get(AGENT, "")
    now = victim.generation or 1
    for generation in (*range(now - 1, 0, -1), now):
        raw = _read(recording_path(config, victim.rank, generation))
        # An earlier scenario of the same run may have left one of this name.
        if raw and raw["t0"] == _read(config).get("t0"):
            return Recording(generation, {key: bytes.fromhex(value) for key, value in raw["keys"].items()})
    raise FaultError(
        f"rank {victim.rank} has recorded no earlier value of any key\n"
        "  mend: place the fault after its default group was made"
    )


def recording_path(config: str, rank: int | None, generation: int) -> str:
    """Where the agent of a rank writes what it records; `config` is the path of its agent.json."""
    return f"{config}.store-{rank}-{generation}"


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def replay(host: StoreHost, earlier: Mapping[str, bytes], tag: str) -> list[dict[str, Any]]:
    """Put earlier values back where the store has others now; what was overwritten is kept under our keys.

    Returns:
        One entry a key that was changed: key, and its value before, as replayed and after, in hex.

    Raises:
        StoreError: the store does not answer.
    """
    call = ("set_back", [[key, value] for key, value in earlier.items()], _kept(tag, ""))
    (changed,) = wire.ask(host.pid, host.address, host.port, [call])
    names = ("before", "replayed", "after")
    return [
        {"key": key, **{name: _hex(value) for name, value in zip(names, values, strict=True)}}
        for key, *values in changed
    ]


def take_back(record: Mapping[str, Any]) -> tuple[bool, str]:
    """Restore what a replay overwrote, unless someone has set the key since; remove our own keys."""
    data, pid, ticks = record["data"], int(record["pid"]), int(record["start_ticks"])
    if not signals.is_alive(pid, ticks):
        return True, "the store is gone with its host, and every key of it"
    address, port, tag = str(data["address"]), int(data["port"]), str(data["tag"])
    try:
        restored = _restore(pid, address, port, tag)
    except wire.StoreError as error:
        if not signals.is_alive(pid, ticks):
            return True, "the store is gone with its host, and every key of it"
        return False, f"the store could not be asked: {error}"
    return True, f"{restored} keys restored; no key of ours is left"


def _restore(pid: int, address: str, port: int, tag: str) -> int:
    restored = 0
    for name in keys_of_ours(pid, address, port, tag):
        key = name.removeprefix(_kept(tag, ""))
        (back,) = wire.ask(pid, address, port, [("give_back", key, name)])
        restored += back
    return restored


def keys_of_ours(pid: int, address: str, port: int, tag: str) -> list[str]:
    """The keys that a fault has left in a store."""
    (keys,) = wire.ask(pid, address, port, [("keys",)])
    return [key for key in keys if key.startswith(_kept(tag, ""))]


def _kept(tag: str, key: str) -> str:
    return f"{OURS}{tag}/{key}"


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
