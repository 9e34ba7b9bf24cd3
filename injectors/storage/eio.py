"""`storage.eio`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Evidence, parameter
from injectors.storage.writes import UNCOVERED, WritingFault, refused


@dataclass(frozen=True, kw_only=True)
class StorageEio(WritingFault):
    """Break the device: writes to the files meant, and syncs of them, fail with EIO.

    Proof: the file is shorter than what was to be written, read from outside.
    Undo: writes are let through again, at the engine's word, at the end of its time or when the tool is gone.
    """

    id: ClassVar[str] = "storage.eio"
    stands_for: ClassVar[str] = "a failing disk, a network file system whose server went away (soft mount)"
    does_not_certify: ClassVar[str] = (
        UNCOVERED + "; errors that the kernel reports at a later fsync only, and a hard mount, which hangs"
    )
    expects: ClassVar[str | None] = "exception"

    after_bytes: int = parameter(
        "how much still works", kind="int", default=0, unit="bytes", minimum=0, maximum=1 << 40
    )

    def judge(self, hit: Mapping[str, Any], size: int | None) -> Evidence:
        return refused(hit, size)
