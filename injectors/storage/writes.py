"""What the faults of files that a job writes have in common: where they strike, and how that is seen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from injectors import helpers, signals
from injectors.fault import (
    Channel,
    Evidence,
    FaultError,
    Mechanism,
    UndoRecord,
    Victim,
    duration,
    parameter,
)
from injectors.host import cgroup
from injectors.lasting import LastingFault
from injectors.storage import mounts

SEEN_S = 3600.0

INTERPOSED = Mechanism(
    name="interposed writer",
    fidelity="alike: Python's files, os.write and torch.save in the victim; not what C code writes by itself",
    probe=lambda: None,
)
MOUNTED = Mechanism(
    name="fuse",
    fidelity="real for the job: a file system over its work folder fails, for all code and all its processes",
    probe=mounts.probe,
)
UNCOVERED = (
    "reads and files that were open before; with the interposed writer also what C code writes by itself "
    "(numpy.save of an array, safetensors, memory maps), and torch.save to a path uses torch's stream writer"
)


@dataclass(frozen=True, kw_only=True)
class WritingFault(LastingFault):
    """Base of the faults that strike writes to files which match `path`."""

    mechanisms: ClassVar[tuple[Mechanism, ...]] = (MOUNTED, INTERPOSED)
    proof_comes_later: ClassVar[bool] = True

    path: str = parameter(
        "which files, as a pattern: relative to the job's work folder, or absolute; ** is any depth",
        kind="str",
        default="checkpoints/*",
    )
    mechanism: str = parameter(
        "which way; auto takes the best that works (a mount needs a path inside the work folder)",
        kind="str",
        default="auto",
        choices=("auto", "fuse", "agent"),
    )
    duration_s: float | None = duration("how long the storage is so", default=30.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.path.strip("/") or ".." in self.path.split("/"):
            raise FaultError(
                f"{self.id}: path={self.path!r} names no files\n  mend: for example checkpoints/*"
            )

    def undo_record(self, victim: Victim) -> UndoRecord:
        why = "an absolute path" if self.path.startswith("/") else mounts.problem(victim.pid, victim.work)
        if self.mechanism == "agent" or (self.mechanism == "auto" and why is not None):
            return super().undo_record(victim)
        if why is not None:
            raise FaultError(f"{self.id}: {why}\n  mend: or let it take `mechanism: agent`")
        tag = cgroup.name_of(victim.run, victim.fault, victim.pid)
        if mounts.is_mounted(tag, victim.pid):
            raise FaultError(f"{tag} is mounted already\n  mend: `torch-chaos rollback`, or unmount it")
        data = {"tag": tag, "mount": os.path.realpath(victim.work)}
        return UndoRecord("storage.fuse", victim.pid, victim.start_ticks, victim.fault, data)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            record = self.undo_record(victim)
        except FaultError as error:
            return Evidence(str(error), False)
        if record.kind != "storage.fuse":
            return super().inject(victim, channel)
        fired = self._mount(victim, str(record.data["tag"]), str(record.data["mount"]))
        answer = getattr(channel, "answer", None)
        if answer is not None:
            # The agent stood at the point all the while, and has nothing to do there itself.
            answer("skip")
        return fired

    def _mount(self, victim: Victim, tag: str, mount: str) -> Evidence:
        where, hits = os.path.join(mount, self.path), f"{mount}.{victim.fault}.hits"
        config = {
            "mount": mount,
            "where": where,
            "pid": victim.pid,
            "hits": hits,
            "limit_s": self.duration_s or SEEN_S,
            "fault": self.id,
            "params": {item.name: getattr(self, item.name) for item in self.parameters()},
        }
        problem = mounts.start(tag, config, victim.run)
        if problem is not None:
            return Evidence(f"{self.id}: {problem}", False)
        seen = mounts.is_mounted(tag, victim.pid)
        data = {"where": where, "hits": hits, "mechanism": "fuse", "tag": tag}
        return Evidence(f"{tag} is mounted over {mount}, as the victim sees it", seen, data=data)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if record.kind != "storage.fuse":
            return super().verify_undone(record)
        tag = str(record.data["tag"])
        left = [pid for pid in (os.getpid(), record.pid) if mounts.is_mounted(tag, pid)]
        helper = helpers.find(tag, mounts.PROGRAM)
        return Evidence(f"{len(left)} mounts and {len(helper)} helpers of {tag} are left", not left + helper)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("the agent reported nothing", False, "agent")
        hit = wait_hit(Path(fired.data["hits"]), victim, self.duration_s or SEEN_S)
        if hit is None:
            return Evidence(f"nothing was written to {fired.data['where']} while it was so", False)
        size = size_of(hit)
        if size is None and fired.data.get("mechanism") == "fuse":
            # The helper, outside the victim, has asked the kernel right after the write.
            size = int(hit["size"])
        return self.judge(hit, size)

    def judge(self, hit: Mapping[str, Any], size: int | None) -> Evidence:
        """What one hit proves.

        Args:
            hit: what the agent said of it: path, `believed` (where the writer thinks its data ends), `size`
                (of the file then, by the kernel) and what was done.
            size: of the file now, read from outside; None if it is not there any more.
        """
        raise NotImplementedError


def wait_hit(hits: Path, victim: Victim, limit_s: float) -> dict[str, Any] | None:
    """The first write that was struck; None if the victim or the time ended without one."""
    limit = time.monotonic() + limit_s
    while True:
        # Before the look, so that what a process did last is not missed.
        alive = signals.is_alive(victim.pid, victim.start_ticks)
        try:
            first, end, _ = hits.read_text().partition("\n")
        except FileNotFoundError:
            first, end = "", ""
        if end:
            found: dict[str, Any] = json.loads(first)
            return found
        if not alive or time.monotonic() > limit:
            return None
        time.sleep(0.01)


def size_of(hit: Mapping[str, Any]) -> int | None:
    """The size of the file that was struck, under whichever name it has in its folder now."""
    path = Path(hit["path"])
    try:
        with os.scandir(path.parent) as entries:
            known = [entry for entry in entries if entry.inode() == hit["inode"] or entry.name == path.name]
            return known[0].stat(follow_symlinks=False).st_size if known else None
    except OSError:
        return None


def refused(hit: Mapping[str, Any], size: int | None) -> Evidence:
    """What a write proves that was answered with an error: the file is shorter than was asked for."""
    data = {"path": hit["path"], "error": hit["error"], "asked_bytes": hit["believed"], "size_bytes": size}
    said = f"the write to {hit['path']} up to byte {hit['believed']} was answered with {hit['error']}"
    if size is None:
        short = int(hit["size"]) < int(hit["believed"])
        return Evidence(f"{said}; the file had {hit['size']} bytes and is gone", short, "agent", data)
    return Evidence(f"{said}; the file has {size} bytes", size < int(hit["believed"]), "kernel", data)
