"""`net.reset`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Mechanism
from injectors.net import base, connections, ladders, space, undoing
from injectors.net.connections import Connection
from injectors.net.established import ConnectionFault, elements, of_prober
from injectors.net.scenes import Scene
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay

# So long after the reset an end of a connection may still be on its way to hear of it.
_HEARD_S = 2.0


def _collect(fault: Any, scene: Scene) -> dict[int, list[Connection]]:
    """By aimed node: the connections to reset, the prober's own among them."""
    aimed = {(a, b) for a, b in scene.pairs if a in scene.place.aimed}
    mine = of_prober(scene)
    everything = connections.between(scene.nodes, aimed)
    jobs = {
        index: [c for c in seen if c not in mine and fault.port in (0, c[1], c[3])]
        for index, seen in everything.items()
    }
    scene.work["jobs"] = jobs
    if not any(jobs.values()):
        scene.nothing = "no connection was established that it could reset"
    return {index: jobs[index] + [c for c in seen if c in mine] for index, seen in everything.items()}


class _Destroy(Way):
    """The kernel of each aimed node destroys the sockets, which sends the peers an RST."""

    kind = undoing.NOTHING

    def prepare(self, fault: Any, scene: Scene) -> dict[str, Any]:
        scene.work["connections"] = _collect(fault, scene)
        return {"connections": sum(map(len, scene.work["jobs"].values()))}

    def apply(self, fault: Any, scene: Scene, data: Mapping[str, Any]) -> None:
        for index, seen in scene.work["connections"].items():
            where = space.standing(scene.node(index))
            lines = [
                f"ss -K -H -n -t src {here}:{own} dst {there}:{port} >/dev/null"
                for here, own, there, port in seen
            ]
            space.run(where, ["sh", "-e"], "\n".join(lines))

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        return _still_there(scene)


def _still_there(scene: Scene) -> dict[str, int]:
    """How many of the job's connections were there, and how many of these the kernels still list."""
    total = sum(map(len, scene.work["jobs"].values()))
    until = time.monotonic() + _HEARD_S
    while True:
        listed = connections.between(scene.nodes, scene.pairs)
        left = sum(c in listed[index] for index, seen in scene.work["jobs"].items() for c in seen)
        left += sum(
            (there, port, here, own) in other
            for seen in scene.work["jobs"].values()
            for here, own, there, port in seen
            for other in listed.values()
        )
        if not left or time.monotonic() > until:
            return {"connections of the job": total, "ends still established": left}
        time.sleep(0.02)


def _lines(fault: Any, scene: Scene) -> dict[int, list[str]]:
    found = {}
    for index, seen in scene.work["connections"].items():
        reverse = [(there, port, here, own) for here, own, there, port in seen]
        key = "type ipv4_addr . inet_service . ipv4_addr . inet_service;"
        rule = "ip saddr . tcp sport . ip daddr . tcp dport @{name} tcp flags & rst == 0 counter name {name}"
        chain = "    type filter hook {hook} priority -300; policy accept;"
        found[index] = [
            "  counter arriving { }",
            "  counter leaving { }",
            f"  set arriving {{ {key}",
            f"    elements = {{ {elements(seen)} }}",
            "  }",
            f"  set leaving {{ {key}",
            f"    elements = {{ {elements(reverse)} }}",
            "  }",
            "  chain input_of_old {",
            chain.format(hook="input"),
            f"    {rule.format(name='arriving')} reject with tcp reset",
            "  }",
            "  chain output_of_old {",
            chain.format(hook="output"),
            f"    {rule.format(name='leaving')} reject with tcp reset",
            "  }",
        ]
    return found


class _Reject(NftWay):
    """An RST answers every packet of the old connections, those of the aimed nodes' own ends too."""

    def prepare(self, fault: Any, scene: Scene) -> dict[str, Any]:
        scene.work["connections"] = _collect(fault, scene)
        data = super().prepare(fault, scene) if not scene.nothing else {}
        return {**data, "connections": sum(map(len, scene.work["jobs"].values()))}

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        return {**super().counters(scene, data), **_still_there(scene)}


_LADDER: tuple[Way, ...] = (
    _Destroy(ladders.SS_KILL),
    _Reject(
        ladders.nft(
            "an RST answers the next packet of each connection; an end that waits hears it when it sends",
            "ip saddr 10.0.0.1 counter",
        ),
        _lines,
    ),
)


@dataclass(frozen=True, kw_only=True)
class NetReset(ConnectionFault):
    """Every established TCP connection between the aimed nodes and the others is reset, once.

    Proof: a connection of the prober's between each two nodes ends with an error at both ends; the kernels no
    longer list the job's connections; a new connection works.
    Undo: nothing stays; where it was done by rules, they are deleted.
    """

    id: ClassVar[str] = "net.reset"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = (
        "a load balancer or firewall that was restarted, a peer's kernel that ran out of memory"
    )
    does_not_certify: ClassVar[str] = "connections that stay open without a word (see net.half_open)"
    expects: ClassVar[str | None] = "collective_error"
    heard_s: ClassVar[float] = _HEARD_S
    struck: ClassVar[frozenset[str]] = frozenset({"ECONNRESET", "ECONNABORTED", "EPIPE"})
    unstruck: ClassVar[str] = "not reset"

    mechanism: str = base.any_mechanism(_LADDER)

    def new_ones(self, view: base.View, reach: Mapping[str, Any]) -> base.Judgement:
        shut = [f"{a}>{b}" for a, b in view.pairs if reach[f"{a}>{b}"]["tcp"] != "ok"]
        if shut:
            return False, f"new connections do not work either: {', '.join(shut)}"
        return True, "were reset at both ends; new ones work"
