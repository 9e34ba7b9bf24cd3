"""Looks at the ways between nodes from inside them, before a fault, during it and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from injectors.net import space
from injectors.net.lines import Helper, HelperError
from injectors.net.shapes import Pair

# A way that should be open is waited for this long: the machine may be slow. One that should be closed is
# given the shorter time; a datagram between two namespaces of one machine takes less than a millisecond.
OPEN_S, SILENT_S = 6.0, 0.4


class Probe:
    """The prober of one fault."""

    def __init__(self, nodes: Sequence[Mapping[str, Any]], tag: str, run: str) -> None:
        """Start it in the namespaces of the nodes.

        Raises:
            HelperError: a node is gone, or its namespaces may not be entered.
        """
        with ExitStack() as stack:
            described, fds, user = [], [], None
            for node in nodes:
                where = space.find(node)
                if where is None:
                    raise HelperError(f"{node['name']} is gone")
                try:
                    net, owner = stack.enter_context(space.opened(where))
                except space.SpaceError as error:
                    raise HelperError(str(error)) from error
                described.append({"index": node["index"], "address": node["address"], "net": net})
                fds.append(net)
                if owner is not None:
                    # Nodes of one cluster are in one user namespace.
                    user = owner
                    fds.append(owner)
            start = {"nodes": described, "user": user}
            self._helper = Helper("probing.py", tag, run, start, fds)

    def reach(self, pairs: Iterable[Pair], silent: Iterable[Pair] = ()) -> dict[str, Any]:
        """By `a>b`: how long a datagram took (None: it did not arrive), and what a new connection found."""
        fields = {"pairs": sorted(pairs), "silent": sorted(silent), "settle_s": SILENT_S, "open_s": OPEN_S}
        return self._ask("reach", OPEN_S, **fields)

    def burst(self, pairs: Iterable[Pair], count: int, gap_s: float, wait_s: float) -> dict[str, Any]:
        """By `a>b`: how many of `count` datagrams arrived, and how long they took."""
        fields = {"pairs": sorted(pairs), "count": count, "gap_s": gap_s, "wait_s": wait_s}
        return self._ask("burst", count * gap_s + wait_s, **fields)

    def flow(self, pairs: Iterable[Pair], skip_s: float, seconds: float) -> dict[str, Any]:
        """By `a>b`: bytes per second of a new connection after its first `skip_s`, one after the other."""
        ways = sorted(pairs)
        takes_s = len(ways) * (skip_s + seconds + 5.0)
        return self._ask("flow", takes_s, pairs=ways, skip_s=skip_s, seconds=seconds)

    def hold(self, pairs: Iterable[Pair]) -> dict[str, Any]:
        """Open connections and keep them; whether each could be opened."""
        ways = sorted(pairs)
        return self._ask("hold", len(ways) * 5.0, pairs=ways)

    def held(self, wait_s: float) -> dict[str, Any]:
        """By `a>b`: what each end of a connection that is kept has heard from the other."""
        return self._ask("held", wait_s, wait_s=wait_s)

    def own(self) -> list[tuple[str, int, str, int]]:
        """The connections that are kept: address and port of both ends."""
        found: list[list[Any]] = self._helper.ask("own", 10.0)
        return [(str(a), int(p), str(b), int(q)) for a, p, b, q in found]

    def close(self) -> None:
        """End it; may be repeated."""
        self._helper.close()

    def _ask(self, op: str, takes_s: float, **fields: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._helper.ask(op, takes_s + 15.0, **fields)
        return found
