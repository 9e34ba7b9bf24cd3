"""Which rank a fault is meant for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from injectors.fault import FaultError

ROLES = ("lowest_live", "store_host", "transfer_source", "transfer_target", "replacement", "detected")


class ReachedLike(Protocol):
    """What is read of a reached event."""

    @property
    def rank(self) -> int | None: ...
    @property
    def fields(self) -> Mapping[str, Any]: ...


def check_where(where: Mapping[str, Any]) -> None:
    """Refuse an address that is neither {rank: r} nor {role: name}.

    Raises:
        FaultError: with the values allowed.
    """
    if set(where) == {"rank"} and isinstance(where["rank"], int) and where["rank"] >= 0:
        return
    if set(where) == {"role"} and where["role"] in ROLES:
        return
    raise FaultError(
        f"where: {dict(where)!r} is no address\n  mend: {{rank: N}} or {{role: {'|'.join(ROLES)}}}"
    )


def resolve(where: Mapping[str, Any], reached: ReachedLike, live: Mapping[int, int]) -> int | None:
    """The rank that `where` names at the moment a process reached the armed point.

    Args:
        where: {rank: r} or {role: name}.
        reached: the point: `rank` of the process that waits there (None: no rank, the supervisor) and
            the `fields` of the event, if it was one.
        live: rank to pid of the ranks alive.

    Returns:
        A global rank, or None: at this point the role belongs to no one yet. The caller answers "skip",
        and the fault stays armed.
    """
    if "rank" in where:
        return int(where["rank"])
    fields = reached.fields
    match where.get("role"):
        case "lowest_live":
            return min(live, default=None)
        case "store_host":
            # The agent says which; under torchrun the store is often hosted by no rank at all.
            host = fields.get("store_host", 0)
            return None if host is None else int(host)
        case "transfer_source":
            return _by_role(reached, "source", "sources")
        case "transfer_target":
            return _by_role(reached, "target", "targets")
        case "replacement":
            return reached.rank if fields.get("fresh") else _first(fields.get("replacements"))
        case "detected":
            rank = fields.get("rank")
            return None if rank is None else int(rank)
        case other:
            raise FaultError(f"where: unknown role {other!r}\n  mend: one of {', '.join(ROLES)}")


def _by_role(reached: ReachedLike, role: str, listed: str) -> int | None:
    if reached.fields.get("role") == role:
        return reached.rank
    # Another party's transfer event names the partners; it is not the partner's own point, so it is
    # used only where the process that waits has no rank of its own.
    return _first(reached.fields.get(listed)) if reached.rank is None else None


def _first(ranks: Any) -> int | None:
    return int(ranks[0]) if ranks else None
