"""nft tables in a node: made in one transaction or not at all, read, and removed if they are ours.

Standard library only: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from injectors.fault import FaultError
from injectors.net import space
from injectors.net.space import Space, SpaceError


def listing(where: Space, table: str) -> str | None:
    """The table as nft prints it, without the elements of its sets; None if there is none of that name.

    Raises:
        SpaceError: nft can't be run there.
    """
    named = json.loads(space.run(where, ["nft", "-j", "list", "tables"]))["nftables"]
    if not any(item.get("table", {}).items() >= {"family": "inet", "name": table}.items() for item in named):
        return None
    return space.run(where, ["nft", "-t", "list", "table", "inet", table])


def is_ours(text: str, remark: str) -> bool:
    """Whether a listed table carries a fault's remark."""
    return f'comment "{remark}"' in text


def refuse_existing(where: Space, table: str, remark: str, node: str) -> None:
    """Make sure that no table of the name is there.

    Raises:
        FaultError: there is one, ours or not.
    """
    text = listing(where, table)
    if text is None:
        return
    if is_ours(text, remark):
        raise FaultError(f"{node}: nft table inet {table} of this fault is already there")
    raise FaultError(
        f"{node}: nft table inet {table} is not of this fault and is left alone\n"
        f"  mend: remove it, if it is yours: nft delete table inet {table}"
    )


def script(table: str, remark: str, body: Sequence[str]) -> str:
    """What `nft -f` is given: the table is created, which fails if it is there, then filled."""
    lines = [f'create table inet {table} {{ comment "{remark}"; }}', f"table inet {table} {{", *body, "}", ""]
    return "\n".join(lines)


def counters(where: Space, table: str) -> dict[str, int]:
    """Packets by name of counter.

    Raises:
        SpaceError: the table is gone.
    """
    text = space.run(where, ["nft", "-j", "list", "counters", "table", "inet", table])
    found = [item["counter"] for item in json.loads(text)["nftables"] if "counter" in item]
    return {item["name"]: int(item["packets"]) for item in found}


def remove(where: Space, table: str, remark: str) -> tuple[bool, str]:
    """Delete a fault's table; returns whether nothing of it is left, and what was done."""
    try:
        text = listing(where, table)
        if text is None:
            return True, "its table is gone"
        if not is_ours(text, remark):
            return True, f"table {table} is not of this fault and is left alone"
        hits = sum(counters(where, table).values())
        space.run(where, ["nft", "delete", "table", "inet", table])
    except SpaceError as error:
        return False, str(error)
    return True, f"its table is deleted, {hits} packets had matched"


def every_counter(nodes: Sequence[Mapping[str, Any]], table: str) -> dict[str, int]:
    """Packets by `node counter` over all nodes that are still there."""
    found: dict[str, int] = {}
    for node in nodes:
        where = space.find(node)
        if where is not None:
            found |= {f"{node['name']} {name}": n for name, n in counters(where, table).items()}
    return found
