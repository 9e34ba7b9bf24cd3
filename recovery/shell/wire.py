"""The protocol's messages as they travel on a channel: plain JSON objects, and back."""

from __future__ import annotations

from typing import Any

from recovery.core import messages as m

_NAMES: dict[type[m.Ready | m.Failed | m.Formed | m.Committed], str] = {
    m.Ready: "ready",
    m.Failed: "failed",
    m.Formed: "formed",
    m.Committed: "committed",
}


def fields(message: Any) -> dict[str, Any]:
    """A message's fields by name."""
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def report(message: m.Ready | m.Failed | m.Formed | m.Committed) -> dict[str, Any]:
    """What a member tells the coordinator. The channel says who speaks, so `proc` does not travel."""
    content = fields(message)
    del content["proc"]
    return {"op": _NAMES[type(message)], **content}


def reported(proc: int, message: dict[str, Any]) -> m.Event:
    """What a process has told its supervisor by `report`.

    Raises:
        ValueError: it is no report.
    """
    content = dict(message)
    name = content.pop("op")
    kind = next((kind for kind, known in _NAMES.items() if known == name), None)
    if kind is None:
        raise ValueError(f"unknown message {name!r} from process number {proc}")
    return kind(proc=proc, **content)


def opening(message: dict[str, Any]) -> m.Open:
    """The order to form a generation; `members` travels as process numbers in the order of ranks."""
    return m.Open(
        generation=int(message["generation"]),
        members=tuple(m.Member(rank, int(proc)) for rank, proc in enumerate(message["members"])),
        version=int(message["version"]),
        digest=message["digest"],
        holders=tuple(message["holders"]),
        receivers=tuple(message["receivers"]),
        genesis=bool(message["genesis"]),
        cause=str(message["cause"]),
    )


# ---------------------------------------------------------------- between nodes

_TRAVEL: dict[str, type[m.Event]] = {
    kind.__name__: kind
    for kind in (
        m.Started,
        m.Ready,
        m.Failed,
        m.Formed,
        m.Committed,
        m.Exited,
        m.Stopped,
        m.Continued,
    )
}


def packed(event: m.Event, now: float) -> dict[str, Any]:
    """A process's event as it travels to the coordinator. A time travels as an age: clocks do not agree."""
    content = fields(event)
    since = content.pop("since", None)
    return {"name": type(event).__name__, **content, "age": None if since is None else now - since}


def unpacked(message: dict[str, Any], now: float) -> m.Event:
    """The event in a message of `packed`.

    Raises:
        ValueError: it is none that may travel.
    """
    content = dict(message)
    kind = _TRAVEL.get(content.pop("name", ""))
    age = content.pop("age", None)
    if kind is None:
        raise ValueError(f"no event of a process: {message!r}")
    if "since" in kind.__dataclass_fields__:
        content["since"] = None if age is None else now - float(age)
    try:
        return kind(**content)
    except TypeError as error:
        raise ValueError(f"{kind.__name__}: {error}") from None
