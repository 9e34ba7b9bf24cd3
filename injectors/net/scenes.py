"""What lies between a fault's `undo_record` and its `verify_undone`: the nodes, the prober, the sight before.

A fault is pure data; what it has open in this process is kept here, by the run and the fault's id.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from injectors.fault import Place, UndoRecord
from injectors.net import tags
from injectors.net.lines import Helper
from injectors.net.probe import Probe
from injectors.net.shapes import Pair


@dataclass
class Scene:
    """One fault at work.

    Attributes:
        place: what it was aimed at.
        nodes: every node as `space.of` has it.
        pairs: the ways that it affects, (sender, receiver).
        probe: None where the nodes can't be entered; the docker daemon's word is then the proof.
        before: what was seen before it.
        record: what was journalled.
        way: the name of the mechanism that was taken.
        helpers: processes that do the fault's work.
        work: what the mechanism keeps from `prepare` to `apply`.
        nothing: why there is nothing to do, empty otherwise.
    """

    place: Place
    nodes: list[dict[str, Any]] = field(default_factory=list)
    pairs: frozenset[Pair] = frozenset()
    probe: Probe | None = None
    before: dict[str, Any] = field(default_factory=dict)
    record: UndoRecord | None = None
    way: str = ""
    helpers: list[Helper] = field(default_factory=list)
    work: dict[str, Any] = field(default_factory=dict)
    nothing: str = ""

    @property
    def tag(self) -> str:
        return tags.name(self.place.run, self.place.fault)

    @property
    def remark(self) -> str:
        return tags.remark(self.place.run, self.place.fault)

    def node(self, index: int) -> dict[str, Any]:
        return next(node for node in self.nodes if node["index"] == index)

    def close(self) -> None:
        """End every process of it; may be repeated."""
        for helper in self.helpers:
            helper.close()
        if self.probe is not None:
            self.probe.close()


_open: dict[tuple[str, str], Scene] = {}
_lock = threading.Lock()


def put(scene: Scene) -> None:
    """Keep a scene; one of the same fault that was never ended is ended now."""
    with _lock:
        old = _open.pop((scene.place.run, scene.place.fault), None)
        _open[scene.place.run, scene.place.fault] = scene
    if old is not None:
        old.close()


def get(run: str, fault: str) -> Scene | None:
    with _lock:
        return _open.get((run, fault))


def end(run: str, fault: str) -> None:
    """Forget a scene and end its processes; may be repeated."""
    with _lock:
        scene = _open.pop((run, fault), None)
    if scene is not None:
        scene.close()
