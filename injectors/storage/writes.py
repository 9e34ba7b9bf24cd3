"""What the faults of files that a job writes have in common: where they strike, and how that is seen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from injectors import signals
from injectors.fault import Evidence, FaultError, Mechanism, Victim, duration, parameter
from injectors.lasting import LastingFault

SEEN_S = 3600.0

INTERPOSED = Mechanism(
    name="interposed writer",
    fidelity="alike: Python's files, os.write and torch.save in the victim; not what C code writes by itself",
    probe=lambda: None,
)
UNCOVERED = (
    "what C code writes by itself (numpy.save of an array, safetensors, memory maps), files that were open "
    "before, and reads; inside a torch.save to a path the archive is written by torch's writer for streams"
)


@dataclass(frozen=True, kw_only=True)
class WritingFault(LastingFault):
    """Base of the faults that strike writes to files which match `path`."""

    mechanisms: ClassVar[tuple[Mechanism, ...]] = (INTERPOSED,)
    proof_comes_later: ClassVar[bool] = True

    path: str = parameter(
        "which files, as a pattern: relative to the job's work folder, or absolute; ** is any depth",
        kind="str",
    )
    duration_s: float | None = duration("how long the storage is so", default=30.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.path.strip("/") or ".." in self.path.split("/"):
            raise FaultError(
                f"{self.id}: path={self.path!r} names no files\n  mend: for example checkpoints/*"
            )

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("the agent reported nothing", False, "agent")
        hit = wait_hit(Path(fired.data["hits"]), victim, self.duration_s or SEEN_S)
        if hit is None:
            return Evidence(f"nothing was written to {fired.data['where']} while it was so", False)
        return self.judge(hit, size_of(hit))

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
            for entry in entries:
                if entry.inode() == hit["inode"]:
                    return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return None
    return None


def refused(hit: Mapping[str, Any], size: int | None) -> Evidence:
    """What a write proves that was answered with an error: the file is shorter than was asked for."""
    data = {"path": hit["path"], "error": hit["error"], "asked_bytes": hit["believed"], "size_bytes": size}
    said = f"the write to {hit['path']} up to byte {hit['believed']} was answered with {hit['error']}"
    if size is None:
        short = int(hit["size"]) < int(hit["believed"])
        return Evidence(f"{said}; the file had {hit['size']} bytes and is gone", short, "agent", data)
    return Evidence(f"{said}; the file has {size} bytes", size < int(hit["believed"]), "kernel", data)
