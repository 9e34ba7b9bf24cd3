"""`storage.slow`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Evidence, parameter
from injectors.storage.writes import UNCOVERED, WritingFault


@dataclass(frozen=True, kw_only=True)
class StorageSlow(WritingFault):
    """Slow the device down: every write to the files meant waits first.

    Proof: the agent measures a write by the monotonic clock; the waiting itself can't be seen in the file.
    Undo: writes are let through again, at the engine's word, at the end of its time or when the tool is gone.
    """

    id: ClassVar[str] = "storage.slow"
    stands_for: ClassVar[str] = "a loaded network file system, a throttled volume, a disk about to fail"
    does_not_certify: ClassVar[str] = UNCOVERED + "; nor that other writers of the same device are slow too"
    expects: ClassVar[str | None] = None

    delay_s: float = parameter("before each write", default=0.02, unit="s", minimum=0.0, maximum=600.0)
    bytes_per_s: float | None = parameter(
        "besides, so fast and no faster", default=None, unit="bytes/s", minimum=1.0, maximum=1e12
    )

    def judge(self, hit: Mapping[str, Any], size: int | None) -> Evidence:
        waited_s = float(hit["waited_s"])
        what = f"a write to {hit['path']} took {waited_s:.3f} s"
        return Evidence(what, waited_s > 0.0 and waited_s >= self.delay_s, "agent", dict(hit))
