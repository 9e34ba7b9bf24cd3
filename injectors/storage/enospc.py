"""`storage.enospc`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Evidence, parameter
from injectors.storage.writes import UNCOVERED, WritingFault, refused


@dataclass(frozen=True, kw_only=True)
class StorageEnospc(WritingFault):
    """Leave no space on the device: writes to the files meant fail with ENOSPC.

    The last write before that may be a short one, as on a real device.
    Proof: the file is shorter than what was to be written, read from outside.
    Undo: writes are let through again, at the engine's word, at the end of its time or when the tool is gone.
    """

    id: ClassVar[str] = "storage.enospc"
    stands_for: ClassVar[str] = "a full disk, a quota that is used up, too many checkpoints that were kept"
    does_not_certify: ClassVar[str] = UNCOVERED
    expects: ClassVar[str | None] = "exception"

    after_bytes: int = parameter(
        "how much still fits", kind="int", default=0, unit="bytes", minimum=0, maximum=1 << 40
    )

    def judge(self, hit: Mapping[str, Any], size: int | None) -> Evidence:
        return refused(hit, size)
