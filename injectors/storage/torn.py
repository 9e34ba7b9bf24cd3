"""`storage.torn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Evidence, parameter
from injectors.storage.writes import UNCOVERED, WritingFault


@dataclass(frozen=True, kw_only=True)
class StorageTorn(WritingFault):
    """Acknowledge every write to the files meant, and keep only the beginning of each file.

    Proof: the file ends before the byte that the writer was told is written, read from outside.
    Undo: writes are let through again, at the engine's word, at the end of its time or when the tool is gone.
    What is torn by then stays torn: the rest was never there.
    """

    id: ClassVar[str] = "storage.torn"
    stands_for: ClassVar[str] = (
        "a power loss before the cache was written: the program saw success, and the file is partial"
    )
    does_not_certify: ClassVar[str] = UNCOVERED + "; an fsync that succeeded is not honoured here"
    expects: ClassVar[str | None] = None

    keep_bytes: int = parameter(
        "how much of each file is kept", kind="int", default=4096, unit="bytes", minimum=0, maximum=1 << 40
    )

    def judge(self, hit: Mapping[str, Any], size: int | None) -> Evidence:
        believed = int(hit["believed"])
        data = {"path": hit["path"], "acknowledged_bytes": believed, "size_bytes": size}
        said = f"{hit['path']}: acknowledged up to byte {believed}"
        if size is None:
            return Evidence(f"{said}; it had {hit['size']} then and is gone", False, "agent", data)
        return Evidence(f"{said}; it has {size}", size < believed, "kernel", data)
