"""The TCPStore of a job that was not changed: its keys recorded, and the moment before a new life uses it.

Nothing here runs unless the job is started again, or a planned fault replays keys.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .trigger import Point

if TYPE_CHECKING:
    from .core import Agent

REPLAY = "store.stale_key"


def before_default_group(agent: Agent) -> None:
    """A rank is about to meet the others. In a life after the first one that is the regroup of a recovery."""
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") in ("", "0") or not (agent.awake or agent.wake()):
        return
    if agent.hot and not agent.from_runtime:
        fields = {"rank": agent.rank, "generation": agent.generation}
        point = Point("event", agent.step, agent.phase, event="recovery.regroup", fields=fields)
        agent.visit(point, user_code=False)


def after_default_group(agent: Agent, store: Any) -> None:
    """Record every key, once a life, where a fault of this rank is to replay one."""
    if not (agent.awake or agent.wake()) or agent.from_runtime or not _is_wanted(agent):
        return
    config = os.environ.get("TORCH_CHAOS_AGENT", "")
    path = f"{config}.store-{agent.rank}-{agent.generation}"
    try:
        keys = read_keys(store)
    except Exception as error:  # a store of another kind must not stop the job; the fault then has no record
        agent.events.write("agent.installed", rank=agent.rank, problems=[f"keys not recorded: {error!r}"])
        return
    record = {"generation": agent.generation, "t0": agent.config.get("t0"), "keys": keys}
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(path + ".new", path)


def read_keys(store: Any) -> dict[str, str]:
    """Every key of the store below all prefixes, with its value in hex. Waits for no key."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    # check() first: get() would wait for a key that was deleted in between.
    return {key: bytes(store.get(key)).hex() for key in store.list_keys() if store.check([key])}


def host_rank(agent: Agent, fault: str) -> int | None:
    """The rank that `role: store_host` means here; None if no rank hosts a store."""
    if fault.startswith("store."):
        # These find the host themselves, which need not be a rank; any rank leads to it.
        return agent.rank
    if agent.from_runtime or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    return 0


def _is_wanted(agent: Agent) -> bool:
    for fault in agent.config.get("faults", ()):
        if fault["name"] == REPLAY and fault["where"].get("rank") in (None, agent.rank):
            return True
    return False
