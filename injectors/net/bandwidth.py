"""`net.bandwidth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors.fault import Mechanism, Place, parameter
from injectors.net import base, ladders, shapes
from injectors.net.relay import Treatment
from injectors.net.scenes import Scene
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import NftWay, QdiscWay, arriving
from injectors.net.ways_outside import RelayWay

# What may pass at once: a twentieth of a second's worth, and no less than a few packets. nft's bucket holds a
# second's worth besides, which is why the proof does not count what comes first.
_LEAST_BURST = 6000
_SKIP_S, _WINDOW_S, _FREE_S = 0.1, 0.4, 0.1


def _burst(rate_bytes_s: float) -> int:
    return max(int(rate_bytes_s / 20), _LEAST_BURST)


def _tbf(fault: Any) -> list[str]:
    return [
        "rate",
        f"{fault.rate_bytes_s * 8:.0f}bit",
        "burst",
        str(_burst(fault.rate_bytes_s)),
        "latency",
        "400ms",
    ]


def _police(fault: Any, scene: Scene) -> dict[int, list[str]]:
    limit = f"limit rate over {fault.rate_bytes_s:.0f} bytes/second burst {_burst(fault.rate_bytes_s)} bytes"
    return arriving(scene, lambda sender: f"{limit} counter name from_{sender} drop")


_LADDER: tuple[Way, ...] = (
    QdiscWay(
        ladders.tc(
            "tbf rate 1mbit burst 6000 latency 400ms",
            "the kernel queues up to 0.4 s and then drops; all that the interface sends shares the rate",
        ),
        "tbf",
        _tbf,
    ),
    NftWay(
        ladders.nft(
            "a policer where packets arrive: what is too much is dropped, not queued; each receiver has the "
            "rate for itself",
            "limit rate over 1000000 bytes/second burst 6000 bytes counter drop",
        ),
        _police,
    ),
    RelayWay(
        ladders.packet_relay("queued up to 32 MiB; each sender has the rate for itself"),
        lambda f: Treatment(rate_bytes_s=f.rate_bytes_s),
    ),
)


@dataclass(frozen=True, kw_only=True)
class NetBandwidth(base.NetFault):
    """What the aimed nodes send is limited to so many bytes a second.

    Proof: the bytes that a new connection carries in 0.4 s from each aimed node, before and during.
    Undo: the qdisc, the rules or the relay are removed; repeatable, harmless if the nodes are gone.
    """

    id: ClassVar[str] = "net.bandwidth"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a link that came up at a lower speed, a neighbour that takes the bandwidth"
    does_not_certify: ClassVar[str] = "a slow receiver, nor contention inside the node's own bus"
    expects: ClassVar[str | None] = None

    rate_bytes_s: float = parameter(
        "the limit", default=1_000_000.0, unit="bytes/s", minimum=10_000.0, maximum=100e9
    )
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        return shapes.outwards([node.index for node in place.nodes], place.aimed)

    def look(self, view: base.View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        first = {a: (a, b) for a, b in sorted(view.pairs, reverse=True)}
        if stage == "during":
            return {"flow": view.probe.flow(first.values(), _SKIP_S, _WINDOW_S)}
        # Shorter: a rank may be waiting at the point where the fault strikes.
        return {"reach": view.probe.reach(view.ways), "flow": view.probe.flow(first.values(), 0.0, _FREE_S)}

    def shows(self, view: base.View, before: Mapping[str, Any], during: Mapping[str, Any]) -> base.Judgement:
        # In the window a full bucket passes besides.
        most = 1.2 * (self.rate_bytes_s + _burst(self.rate_bytes_s) / _WINDOW_S)
        said = []
        for name, seen in during["flow"].items():
            was, now = before["flow"][name]["bytes_s"], seen["bytes_s"]
            said.append(f"{name} carries {now / 1e6:.2f} MB/s, {was / 1e6:.2f} before")
            # A limit above what the way carried does nothing, however slow a busy machine is this time.
            if not 0 < now <= most or max(now, self.rate_bytes_s) > 0.7 * was:
                return False, f"{said[-1]}; {self.rate_bytes_s / 1e6:.2f} was asked for"
        return True, "; ".join(said)

    def healed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> base.Judgement:
        for name, seen in after["flow"].items():
            was, now = before["flow"][name]["bytes_s"], seen["bytes_s"]
            if now < min(0.3 * was, 2 * self.rate_bytes_s):
                return (
                    False,
                    f"{name} still carries no more than {now / 1e6:.2f} MB/s, {was / 1e6:.2f} before",
                )
        return base.reached_again(before["reach"], after["reach"])
