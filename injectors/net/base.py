"""What the faults of the network have in common: nodes, a ladder of mechanisms, and two sights of the effect.

The order is the engine's. `undo_record` looks at the ways between the nodes, picks the mechanism and refuses
if something foreign is in its way; `inject` carries it out; `verify` reads the mechanism's counters and looks
at the ways again; `verify_undone` looks a third time.

The rule of proof: the prober's sight decides, and the mechanism's counters are shown beside it. A partition
through which the job sent nothing in that moment counts no packet of the job's and cuts all the same; one
whose counters ran while the prober still got through is no partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from injectors import undo as undo_module
from injectors.fault import (
    Channel,
    Evidence,
    Fault,
    FaultError,
    Mechanism,
    Place,
    UndoRecord,
    duration,
    parameter,
)
from injectors.net import scenes, space, undoing
from injectors.net.dockernet import DockerError
from injectors.net.lines import HelperError
from injectors.net.probe import Probe
from injectors.net.scenes import Scene
from injectors.net.shapes import Pair
from injectors.net.space import SpaceError
from injectors.net.ways import Way

BEST = "best"
_FAILURES = (SpaceError, HelperError, DockerError, OSError)
Judgement = tuple[bool, str]


@dataclass(frozen=True)
class View:
    """What a look needs: the prober, every way between the nodes that are there, and the affected ones."""

    probe: Probe
    ways: list[Pair]
    pairs: list[Pair]


def any_mechanism(ladder: Iterable[Way]) -> Any:
    """The field `mechanism` of a fault with this ladder."""
    names = tuple(way.mechanism.name for way in ladder)
    return parameter(
        "the mechanism; `best` takes the first that works here",
        kind="str",
        default=BEST,
        choices=(BEST, *names),
    )


@dataclass(frozen=True, kw_only=True)
class NetFault(Fault):
    """Base of the faults that act on the network between nodes."""

    has_undo: ClassVar[bool] = True
    aims_at: ClassVar[Literal["process", "nodes"]] = "nodes"
    privileges: ClassVar[tuple[str, ...]] = (
        "root, or the owner of the nodes' user namespace (CAP_NET_ADMIN)",
    )
    ladder: ClassVar[tuple[Way, ...]]

    duration_s: float | None = duration("how long it lasts; without it, until the scenario heals")

    # -- what each fault says

    def affected(self, place: Place) -> frozenset[Pair]:
        """The ways (sender, receiver) that it affects; empty where there is nothing to do.

        Raises:
            FaultError: its parameters make no sense with these nodes.
        """
        raise NotImplementedError

    def look(self, view: View, stage: Literal["before", "during", "after"]) -> dict[str, Any]:
        """Look at the ways. JSON only."""
        silent = view.pairs if stage == "during" else []
        return {"reach": view.probe.reach(view.ways, silent)}

    def shows(self, view: View, before: Mapping[str, Any], during: Mapping[str, Any]) -> Judgement:
        """Whether the effect is there, and in words."""
        raise NotImplementedError

    def healed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Judgement:
        """Whether the effect is gone, and in words."""
        return reached_again(before["reach"], after["reach"])

    # -- the engine's order

    def undo_record(self, victim: Place) -> UndoRecord | None:
        scene = Scene(victim)
        scenes.put(scene)
        try:
            record = self._prepare(scene)
        except (SpaceError, HelperError) as error:
            scenes.end(victim.run, victim.fault)
            raise FaultError(f"{self.id}: {error}") from error
        except BaseException:
            scenes.end(victim.run, victim.fault)
            raise
        if record is None:
            scene.close()
        scene.record = record
        return record

    def _prepare(self, scene: Scene) -> UndoRecord | None:
        place = scene.place
        scene.pairs = self.affected(place)
        if not scene.pairs:
            scene.nothing = "it leaves every way between the nodes as it is"
            return None
        scene.nodes = [space.of(node) for node in place.nodes]
        why_not = ""
        try:
            scene.probe = Probe(scene.nodes, scene.tag, place.run)
        except HelperError as error:
            why_not = str(error)
        way = self._choose(scene, why_not)
        if scene.probe is not None:
            scene.before = self.look(_view(scene), "before")
        data = way.prepare(self, scene)
        if scene.nothing:
            return None
        scene.way = way.mechanism.name
        kept = {
            "run": place.run,
            "mechanism": way.mechanism.name,
            "all": scene.nodes,
            "pairs": sorted(scene.pairs),
            "before": scene.before,
        }
        return UndoRecord(way.kind, fault=place.fault, data={**kept, **data})

    def _choose(self, scene: Scene, why_not: str) -> Way:
        """The first way that works here. `why_not`: why the nodes can't be entered, empty if they can."""
        wanted, reasons = getattr(self, "mechanism", BEST), []
        for way in self.ladder:
            name = way.mechanism.name
            if wanted not in (BEST, name):
                continue
            reason = (why_not if way.enters else None) or way.unfit(scene) or way.mechanism.probe()
            if not reason:
                return way
            reasons.append(f"{name}: {reason}")
        raise FaultError(f"{self.id}: no mechanism works here\n  " + "\n  ".join(reasons))

    def inject(self, victim: Place, channel: Channel | None) -> Evidence:
        scene = scenes.get(victim.run, victim.fault)
        if scene is None or scene.record is None:
            scenes.end(victim.run, victim.fault)
            what = scene.nothing if scene is not None else "nothing was prepared"
            return Evidence(f"{self.id} did nothing: {what}", False)
        way = self._way(scene.way)
        try:
            way.apply(self, scene, scene.record.data)
        except _FAILURES as error:
            # A part of it may be in place, and nobody takes back what has not fired.
            back = undo_module.carry_out(scene.record.as_dict())
            scenes.end(victim.run, victim.fault)
            what = "" if back["done"] else f"; not all of it could be taken back: {back['detail']}"
            return Evidence(f"{self.id} by {way.mechanism.name} failed: {error}{what}", False)
        names = [node["name"] for node in scene.record.data.get("nodes", [])]
        return Evidence(
            f"{way.mechanism.name} at work on {', '.join(names) or 'the nodes'}",
            True,
            data={
                "mechanism": way.mechanism.name,
                "fidelity": way.mechanism.fidelity,
                "pairs": [f"{a}>{b}" for a, b in sorted(scene.pairs)],
                "before": scene.before,
            },
        )

    def verify(self, victim: Place, fired: Evidence | None = None) -> Evidence:
        scene = scenes.get(victim.run, victim.fault)
        if scene is None or scene.record is None:
            return Evidence(f"{self.id} is not at work", False)
        way = self._way(scene.way)
        data: dict[str, Any] = {"mechanism": scene.way, "before": scene.before}
        try:
            # Read first: what is counted now is the job's own, what comes after may be the prober's.
            data["counters_of_the_job"] = way.counters(scene, scene.record.data)
            if scene.probe is None:
                return self._by_daemon(way, scene, data)
            view = _view(scene)
            data["during"] = self.look(view, "during")
            data["counters"] = way.counters(scene, scene.record.data)
        except _FAILURES as error:
            return Evidence(f"{self.id} could not be seen: {error}", False, data=data)
        proven, what = self.shows(view, scene.before, data["during"])
        return Evidence(what, proven, data=data)

    def _by_daemon(self, way: Way, scene: Scene, data: dict[str, Any]) -> Evidence:
        assert scene.record is not None
        left = undoing.left(scene.record.as_dict())
        return Evidence("; ".join(left) or "the daemon sees no change", bool(left), "docker daemon", data)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        run = str(record.data["run"])
        scene = scenes.get(run, record.fault)
        try:
            return self._seen_undone(record, scene)
        except _FAILURES as error:
            return Evidence(f"it can't be seen whether {self.id} is gone: {error}", False)
        finally:
            scenes.end(run, record.fault)

    def _seen_undone(self, record: UndoRecord, scene: Scene | None) -> Evidence:
        left = undoing.left(record.as_dict())
        if left:
            return Evidence(f"still there: {'; '.join(left)}", False)
        nodes = [node for node in record.data["all"] if space.find(node) is not None]
        if len(nodes) < 2:
            return Evidence("nothing of it is left; the nodes are gone, so no way can be tried", True)
        if not record.data["before"]:
            return Evidence("nothing of it is left", True, "docker daemon")
        probe = scene.probe if scene is not None else None
        whole = len(nodes) == len(record.data["all"])
        fresh = None
        if probe is None or not whole:
            probe = fresh = Probe(nodes, f"{record.fault}_after", str(record.data["run"]))
        try:
            there = [int(node["index"]) for node in nodes]
            pairs = [(int(a), int(b)) for a, b in record.data["pairs"]]
            view = View(probe, _ways(there), [p for p in pairs if set(p) <= set(there)])
            after = self.look(view, "after")
        finally:
            if fresh is not None:
                fresh.close()
        proven, what = self.healed(record.data["before"], after)
        return Evidence(what, proven, data={"before": record.data["before"], "after": after})

    def _way(self, name: str) -> Way:
        return next(way for way in self.ladder if way.mechanism.name == name)


def _ways(indices: Iterable[int]) -> list[Pair]:
    there = sorted(indices)
    return [(a, b) for a in there for b in there if a != b]


def _view(scene: Scene) -> View:
    assert scene.probe is not None
    return View(scene.probe, _ways(node["index"] for node in scene.nodes), sorted(scene.pairs))


def of(ladder: tuple[Way, ...]) -> tuple[Mechanism, ...]:
    """The mechanisms of a ladder, best first."""
    return tuple(way.mechanism for way in ladder)


def reached_again(before: Mapping[str, Any], after: Mapping[str, Any]) -> Judgement:
    """Whether every way that was open before is open again; ways to nodes that are gone count for nothing."""
    shut = [
        name
        for name, seen in after.items()
        if (before[name]["udp_ms"] is not None and seen["udp_ms"] is None)
        or (before[name]["tcp"] == "ok" and seen["tcp"] != "ok")
    ]
    if shut:
        return False, f"still cut: {', '.join(shut)}"
    return True, f"all {len(after)} ways between the nodes are as before"


@dataclass(frozen=True, kw_only=True)
class CutFault(NetFault):
    """Base of the faults that cut ways for good: nothing gets through, everything else does."""

    def shows(self, view: View, before: Mapping[str, Any], during: Mapping[str, Any]) -> Judgement:
        cut = set(view.pairs)
        was, now = before["reach"], during["reach"]
        through, astray, unknown = [], [], []
        for pair in view.ways:
            name = f"{pair[0]}>{pair[1]}"
            closed = now[name]["udp_ms"] is None
            if was[name]["udp_ms"] is None:
                unknown.append(name)
            elif pair in cut and not closed:
                through.append(name)
            elif pair not in cut and closed:
                astray.append(name)
            if {pair, pair[::-1]} & cut:
                through += [name] if now[name]["tcp"] == "ok" and pair in cut else []
            elif now[name]["tcp"] != "ok" and was[name]["tcp"] == "ok":
                astray.append(name)
        if through:
            return False, f"still through: {', '.join(sorted(set(through)))}"
        if astray:
            return False, f"cut too much: {', '.join(sorted(set(astray)))}"
        if dark := sorted(set(unknown) & {f"{a}>{b}" for a, b in cut}):
            return False, f"cut before the fault already: {', '.join(dark)}"
        open_ways = len(view.ways) - len(cut)
        return True, f"{len(cut)} ways are silent that answered before, {open_ways} answer as before"
