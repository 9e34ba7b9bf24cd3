"""Take back what the faults of the network made in the nodes.

A namespace in which no process lives any more is gone with all that was in it. Where it still stands, only
what carries the fault's own name and remark is removed.

Standard library only: these run when the tool is already dead.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from injectors import signals
from injectors.net import dockernet, links, space, tables
from injectors.net.space import Space, SpaceError
from injectors.undo import Handler

TABLE, QDISC, RELAY, LINK, DOCKER, NOTHING = (
    "net.table",
    "net.qdisc",
    "net.relay",
    "net.link",
    "net.docker",
    "net.nothing",
)
Result = tuple[bool, str]


def _each(nodes: Sequence[Mapping[str, Any]], act: Callable[[Space, Mapping[str, Any]], Result]) -> Result:
    """Act in every node that is still there."""
    done, said = True, []
    for node in nodes:
        where = space.find(node)
        if where is None:
            said.append(f"{node['name']}: its network namespace is gone, and all that was in it")
            continue
        try:
            ok, what = act(where, node)
        except SpaceError as error:
            ok, what = False, str(error)
        # A node that ended in between took everything with it.
        if not ok and space.find(node) is None:
            ok, what = True, "its network namespace is gone, and all that was in it"
        done = done and ok
        said.append(f"{node['name']}: {what}")
    return done, "; ".join(said)


def _table(record: Mapping[str, Any]) -> Result:
    data = record["data"]
    return _each(data["nodes"], lambda where, node: tables.remove(where, data["table"], data["remark"]))


def _qdisc(record: Mapping[str, Any]) -> Result:
    data = record["data"]

    def act(where: Space, node: Mapping[str, Any]) -> Result:
        if links.show(where, node["interface"]) is None:
            return True, "the interface is gone, and its qdisc"
        kind, handle = links.root_qdisc(where, node["interface"])
        if (kind, handle) != (data["qdisc"], data["handle"]):
            return True, f"the root qdisc is {kind} {handle}, not this fault's"
        space.run(where, ["tc", "qdisc", "del", "dev", node["interface"], "root", "handle", handle])
        return True, f"qdisc {kind} {handle} is deleted"

    return _each(data["nodes"], act)


def _relay(record: Mapping[str, Any]) -> Result:
    data = record["data"]

    def act(where: Space, node: Mapping[str, Any]) -> Result:
        found = links.show(where, data["link"])
        if found is None:
            return True, "its link is gone"
        if found.get("ifalias") != data["remark"]:
            return True, f"link {data['link']} is not of this fault and is left alone"
        try:
            space.run(where, ["ip", "link", "del", "dev", data["link"]])
        except SpaceError:
            # The relay ends with the tool, and its link with it: it may go between the look and the act.
            if links.show(where, data["link"]) is not None:
                raise
            return True, "its link went by itself"
        return True, "its link is deleted, and the routes into it"

    done, said = _each(data["nodes"], act)
    ended = end_helpers(data["tag"], "relaying.py")
    return done, f"{said}; {ended} relays ended"


def end_helpers(tag: str, program: str) -> int:
    """Kill the helper processes of one fault; returns how many there were."""
    count = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        ticks = signals.start_ticks(int(name))
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            # Gone between the listing and the look.
            continue
        if ticks is not None and tag.encode() in words and any(w.endswith(program.encode()) for w in words):
            count += signals.send(int(name), ticks, signal.SIGKILL)
    return count


def _link(record: Mapping[str, Any]) -> Result:
    data = record["data"]

    def act(where: Space, node: Mapping[str, Any]) -> Result:
        name = node["interface"]
        found = links.show(where, name)
        if found is None:
            return True, f"{name} is gone"
        if found.get("ifalias") != data["remark"]:
            return True, f"{name} does not carry this fault's remark and is left alone"
        space.run(where, ["ip", "link", "set", "dev", name, "up"])
        for words in node["routes"]:
            space.run(where, ["ip", "-4", "route", "replace", *words, "dev", name])
        # Last: without the remark nothing would be done a second time.
        space.run(where, ["ip", "link", "set", "dev", name, "alias", ""])
        return True, f"{name} is up again"

    return _each(data["nodes"], act)


def _docker(record: Mapping[str, Any]) -> Result:
    data = record["data"]
    done, said = True, []
    for node in data["nodes"]:
        ok, what = dockernet.reconnect(node)
        done = done and ok
        said.append(f"{node['name']}: {what}")
    return done, "; ".join(said)


def _nothing(record: Mapping[str, Any]) -> Result:
    return True, "it was over at once, and left nothing"


HANDLERS: Mapping[str, Handler] = {
    TABLE: _table,
    QDISC: _qdisc,
    RELAY: _relay,
    LINK: _link,
    DOCKER: _docker,
    NOTHING: _nothing,
}


def left(record: Mapping[str, Any]) -> list[str]:
    """What of a fault is still in the nodes, in words; looks, and changes nothing.

    Raises:
        SpaceError: a node can't be looked into.
    """
    data, found = record["data"], []
    for node in data.get("nodes", ()):
        where = space.find(node) if record["kind"] != DOCKER else None
        what = None
        if record["kind"] == DOCKER:
            what = None if dockernet.connected(node) is not False else "is not connected to its network"
        elif where is not None:
            what = _left_in(where, node, record["kind"], data)
        if what:
            found.append(f"{node['name']}: {what}")
    return found


def _left_in(where: Space, node: Mapping[str, Any], kind: str, data: Mapping[str, Any]) -> str | None:
    if kind == TABLE:
        text = tables.listing(where, data["table"])
        return f"table {data['table']}" if text and tables.is_ours(text, data["remark"]) else None
    if kind == QDISC:
        seen = links.root_qdisc(where, node["interface"])
        return f"qdisc {seen[0]} {seen[1]}" if seen == (data["qdisc"], data["handle"]) else None
    if kind in (RELAY, LINK):
        name = data["link"] if kind == RELAY else node["interface"]
        found = links.show(where, name)
        return f"link {name}" if found and found.get("ifalias") == data["remark"] else None
    return None
