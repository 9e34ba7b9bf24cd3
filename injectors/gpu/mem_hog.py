"""`gpu.mem_hog`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import parameter
from injectors.gpu.sharing import SharingFault


@dataclass(frozen=True, kw_only=True)
class GpuMemHog(SharingFault):
    """Let another process hold a share of the memory that is free on the victim's device.

    Proof: NVML lists the process, and reads less free memory than before by what it holds.
    Undo: the process is killed, found by its token; it ends with the tool, and when its time is up, too.
    """

    id: ClassVar[str] = "gpu.mem_hog"
    act: ClassVar[str] = "hold"
    stands_for: ClassVar[str] = (
        "an orphan that still holds its memory when the replacement starts, a neighbour, a leak"
    )
    does_not_certify: ClassVar[str] = (
        "that the victim ran out of memory: what its allocator keeps already serves it further"
    )

    share: float = parameter("of the memory that is free", default=0.9, minimum=0.01, maximum=0.99)

    def judge(self, said: dict[str, Any], seen: dict[str, Any], before: Any) -> tuple[str, bool]:
        held, gone = int(said["held_bytes"]), int(before["free_bytes"]) - int(seen["free_bytes"])
        what = f"holds {held} bytes; free memory fell by {gone}"
        # Of what fell, others may have given back a little meanwhile.
        return what, held > 0 and gone >= 0.9 * held
