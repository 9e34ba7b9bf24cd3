"""`net.loss`."""

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
from injectors.net.ways_kernel import NftWay, arriving
from injectors.net.ways_outside import RelayWay

_RULE = "numgen random mod 100000 < {share} counter{name} drop"


def _lines(fault: Any, scene: Scene) -> dict[int, list[str]]:
    share = round(fault.percent * 1000)
    return arriving(scene, lambda sender: _RULE.format(share=share, name=f" name from_{sender}"))


_LADDER: tuple[Way, ...] = (
    NftWay(
        ladders.nft(
            "each packet by itself, in the kernel; no bursts of loss", _RULE.format(share=1, name="")
        ),
        _lines,
    ),
    RelayWay(
        ladders.packet_relay("up to 64 KiB that were sent in one go are lost together"),
        lambda f: Treatment(loss=f.percent / 100),
    ),
)
_COUNT, _GAP_S = 300, 0.0005


@dataclass(frozen=True, kw_only=True)
class NetLoss(base.NetFault):
    """A share of the packets between the aimed nodes and the others is lost, in both directions.

    Proof: how many of 300 datagrams arrive on each way, before and during; counters of what was dropped.
    Undo: the rules are deleted; repeatable, harmless if the nodes are gone.
    """

    id: ClassVar[str] = "net.loss"
    ladder: ClassVar[tuple[Way, ...]] = _LADDER
    mechanisms: ClassVar[tuple[Mechanism, ...]] = base.of(_LADDER)
    stands_for: ClassVar[str] = "a dirty optical link, a bad cable, an overloaded switch"
    does_not_certify: ClassVar[str] = "losses in bursts, nor what RDMA makes of a lost packet"
    expects: ClassVar[str | None] = None

    percent: float = parameter("the share that is lost", default=5.0, unit="%", minimum=0.0, maximum=100.0)
    mechanism: str = base.any_mechanism(_LADDER)

    def affected(self, place: Place) -> frozenset[Pair]:
        if self.percent == 0:
            return frozenset()
        return shapes.both(shapes.outwards([node.index for node in place.nodes], place.aimed))

    def look(self, view: base.View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        burst = view.probe.burst(view.pairs, _COUNT, _GAP_S, 0.3)
        return {"reach": {} if stage == "during" else view.probe.reach(view.ways), "burst": burst}

    def shows(self, view: base.View, before: Mapping[str, Any], during: Mapping[str, Any]) -> base.Judgement:
        was, now = lost(before["burst"]), lost(during["burst"])
        sent = sum(seen["sent"] for seen in during["burst"].values())
        share = self.percent / 100
        # Four standard deviations of what chance gives, and a little for what a busy machine loses itself.
        slack = 4 * (share * (1 - share) / sent) ** 0.5 + 0.01
        what = f"{now:.1%} of {sent} datagrams were lost, {was:.1%} before; {share:.1%} was asked for"
        return now > was and abs(now - share) <= slack, what

    def healed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> base.Judgement:
        now = lost(after["burst"])
        if now > max(lost(before["burst"]), 0.2 * self.percent / 100):
            return False, f"{now:.1%} of the datagrams are still lost"
        return base.reached_again(before["reach"], after["reach"])


def lost(burst: Mapping[str, Any]) -> float:
    """The share of all datagrams that did not arrive, 0 to 1."""
    sent = sum(seen["sent"] for seen in burst.values())
    return 1 - sum(seen["received"] for seen in burst.values()) / sent if sent else 0.0
