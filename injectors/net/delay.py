"""`net.delay`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors.fault import FaultError, Mechanism, Place, parameter
from injectors.net import base, ladders, shapes
from injectors.net.relay import Treatment
from injectors.net.shapes import Pair
from injectors.net.ways import Way
from injectors.net.ways_kernel import QdiscWay
from injectors.net.ways_outside import RelayWay

_LADDER: tuple[Way, ...] = (
    QdiscWay(
        ladders.tc(
            "netem delay 10ms",
            "the kernel holds every packet back; what goes to others than the nodes too; jitter may reorder",
        ),
        "netem",
        lambda f: ["delay", f"{f.delay_s * 1e6:.0f}us", f"{f.jitter_s * 1e6:.0f}us", "limit", "100000"],
    ),
    RelayWay(
        ladders.packet_relay("held back in order: jitter does not reorder"),
        lambda f: Treatment(delay_s=f.delay_s, jitter_s=f.jitter_s),
    ),
)
# Enough datagrams to see the least delay past a busy machine, and the spread of the jitter.
_COUNT, _GAP_S = 40, 0.004


@dataclass(frozen=True, kw_only=True)
class NetDelay(base.NetFault):
    """Everything that the aimed nodes send to the others arrives later, by a fixed time and a random one.

    Proof: the one-way times of 40 datagrams on each way, before and during.
    Undo: the qdisc or the relay is removed; repeatable, harmless if the nodes are gone.
    """

    id: ClassVar[str] = "net.delay"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a detour through another site, a congested switch, a slow virtual network"
    does_not_certify: ClassVar[str] = (
        "loss that comes with congestion (see net.loss), nor delay on the way back"
    )
    expects: ClassVar[str | None] = None

    delay_s: float = parameter("how much later", default=0.05, unit="s", minimum=0.0, maximum=10.0)
    jitter_s: float = parameter(
        "drawn evenly from minus to plus this, for each packet",
        default=0.0,
        unit="s",
        minimum=0.0,
        maximum=10.0,
    )
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        if self.jitter_s > self.delay_s:
            raise FaultError(f"net.delay: jitter_s={self.jitter_s} is more than delay_s={self.delay_s}")
        if self.delay_s == 0:
            return frozenset()
        return shapes.outwards([node.index for node in place.nodes], place.aimed)

    def look(self, view: base.View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        wait_s = 4.0 + self.delay_s + self.jitter_s
        burst = view.probe.burst(view.pairs, _COUNT, _GAP_S, wait_s)
        return {"reach": {} if stage == "during" else view.probe.reach(view.ways), "burst": burst}

    def shows(self, view: base.View, before: Mapping[str, Any], during: Mapping[str, Any]) -> base.Judgement:
        least_ms = (self.delay_s - self.jitter_s) * 1e3
        for name, seen in during["burst"].items():
            was = before["burst"][name]
            if not seen["received"] or not was["received"]:
                return False, f"{name}: no datagram arrived"
            # The quickest of them all, since a busy machine makes any of them late but none early.
            gain_ms = seen["min_ms"] - was["min_ms"]
            if (
                gain_ms <= 0
                or seen["min_ms"] < 0.95 * least_ms
                or seen["median_ms"] < 0.7 * self.delay_s * 1e3
            ):
                return False, f"{name}: {seen['min_ms']} ms at least, {was['min_ms']} ms before"
            if self.jitter_s and seen["max_ms"] - seen["min_ms"] < 0.2 * self.jitter_s * 1e3:
                return False, f"{name}: no jitter, {seen['min_ms']} to {seen['max_ms']} ms"
        return True, "; ".join(
            f"{name} takes {seen['min_ms']:.1f} to {seen['max_ms']:.1f} ms, "
            f"{before['burst'][name]['min_ms']:.1f} before"
            for name, seen in during["burst"].items()
        )

    def healed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> base.Judgement:
        least_ms = (self.delay_s - self.jitter_s) * 1e3
        late = [
            f"{name}: {seen.get('min_ms')} ms"
            for name, seen in after["burst"].items()
            # As quick as before would be asking too much of a busy machine.
            if not seen["received"]
            or seen["min_ms"] > max(2 * before["burst"][name]["min_ms"], 0.5 * least_ms)
        ]
        if late:
            return False, f"still late: {', '.join(late)}"
        return base.reached_again(before["reach"], after["reach"])
