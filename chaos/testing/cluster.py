"""The fixture `torch_chaos_cluster`: nodes to try things on, made for a test and gone after it."""

from __future__ import annotations

import secrets
import select
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.clusters.base import Cluster, Output, Plot
from chaos.clusters.make import PROBES, make_cluster
from chaos.testing.needs import Missing, skip_or_fail
from chaos.testing.wanted import cluster_of
from injectors.fault import Node

if TYPE_CHECKING:
    from chaos.testing.session import TorchChaos

ANSWER_S = 20.0


@dataclass(frozen=True)
class Answer:
    """What a command on a node came to; `code` is negative for a signal."""

    code: int
    out: str
    err: str


class LiveCluster:
    """Nodes that are there: commands can be run on each.

    Attributes:
        spec: for `torch_chaos.run(..., cluster=cluster.spec)`: a job gets nodes of its own, like these.
    """

    def __init__(self, cluster: Cluster, spec: dict[str, Any], env: Mapping[str, str], folder: Path) -> None:
        self.spec = spec
        self._cluster, self._env, self._folder = cluster, env, folder

    @property
    def kind(self) -> str:
        """`local`, `netns` or `docker`."""
        return self._cluster.kind

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, in order."""
        return tuple(self._cluster.nodes)

    def run(self, node: int, argv: Sequence[str], *, timeout_s: float = ANSWER_S) -> Answer:
        """Run a command on a node, to its end.

        Raises:
            subprocess.TimeoutExpired: it took longer, and was ended.
            TargetFailed: it could not be started.
        """
        paths = [self._folder / f"{secrets.token_hex(4)}.{name}" for name in ("out", "err")]
        with paths[0].open("wb") as out, paths[1].open("wb") as err:
            output = Output(out.fileno(), err.fileno())
            running = self._cluster.start(node, argv, self._env, None, output)
        try:
            if not select.select([running.end_fd], [], [], timeout_s)[0]:
                raise subprocess.TimeoutExpired([*argv], timeout_s)
            end = running.poll()
        finally:
            running.stop()
        code = 0 if end is None else end.code if end.code is not None else -(end.signal or 0)
        return Answer(code, *(path.read_text(encoding="utf-8", errors="replace") for path in paths))


@contextmanager
def live(chaos: TorchChaos) -> Iterator[LiveCluster]:
    """The cluster that a test's marker names; without one, two local nodes."""
    spec = cluster_of(chaos.marked.cluster or "local")
    kind = spec.get("kind", "local")
    if kind not in PROBES:
        pytest.fail(f"cluster={kind!r}: one of {', '.join(PROBES)}", pytrace=False)
    found = PROBES[kind]()
    if not found.works:
        lacking = Missing(f"cluster {kind}", f"{found.detail}; {found.mend}", frozenset({kind, "all"}))
        skip_or_fail([lacking], chaos.options)
    context = chaos.bench.context
    name = f"test-{secrets.token_hex(4)}"
    folder = context.sub("cluster", name)
    plot = Plot(context.run, name, spec["nodes"], spec.get("image") or "", (folder,))
    cluster = make_cluster({"kind": kind}, plot)
    record = cluster.undo_record()
    if record is not None:
        context.journal.undo(name, record.as_dict())
    try:
        cluster.open()
        yield LiveCluster(cluster, spec, context.env, folder)
    finally:
        left = [*cluster.destroy(), *cluster.left()]
        if not left and record is not None:
            context.journal.undone(name, "engine")
        shutil.rmtree(folder, ignore_errors=True)
    if left:
        pytest.fail(f"left over of the cluster: {'; '.join(left)}", pytrace=False)
