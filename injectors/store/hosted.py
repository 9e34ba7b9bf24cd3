"""What the faults of the store's host share: the host as a victim of its own."""

from __future__ import annotations

from injectors import signals
from injectors.fault import Evidence, FaultError, UndoRecord, Victim
from injectors.store.host import StoreHost, find


def host_of(victim: Victim) -> tuple[StoreHost | None, str]:
    """The host of a rank's store, or None and why there is none to act on."""
    try:
        return find(victim), ""
    except FaultError as error:
        return None, str(error)


def as_victim(host: StoreHost, victim: Victim) -> Victim:
    """The host as the process to act on; it keeps the address under which the fault was placed."""
    return Victim(
        pid=host.pid,
        start_ticks=host.start_ticks,
        rank=victim.rank,
        generation=victim.generation,
        step=victim.step,
        fault=victim.fault,
    )


def told(host: StoreHost, victim: Victim, evidence: Evidence) -> Evidence:
    """The evidence of an act on the host, with whom it hit and how that one was found."""
    part = "the rank itself" if host.is_victim(victim) else "no rank"
    what = f"the store of rank {victim.rank} is hosted by {host.in_words()}, {part}: {evidence.what}"
    return Evidence(what, evidence.proven, evidence.source, {**host.as_dict(), **evidence.data})


def host_in(fired: Evidence | None, victim: Victim) -> Victim | None:
    """The host that a fault hit, from what it reported: after the act it can't be found any more."""
    if fired is None or "host" not in fired.data:
        return None
    return Victim(
        pid=int(fired.data["host"]),
        start_ticks=int(fired.data["start_ticks"]),
        rank=victim.rank,
        fault=victim.fault,
    )


def host_is_gone(record: UndoRecord) -> bool:
    """Whether the process that a record names has ended."""
    return not signals.is_alive(record.pid, record.start_ticks)
