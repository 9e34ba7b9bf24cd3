"""`collective.corrupt`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class CollectiveCorrupt(InsideFault):
    """Flip one bit of what a collective delivered to one rank; no error, no message.

    It acts below the runtime under test, as a memory or link error would.
    Proof: the agent's checksum of the delivered tensors before and after.
    Undo: none.
    """

    id: ClassVar[str] = "collective.corrupt"
    stands_for: ClassVar[str] = (
        "silent data corruption: a bit error on the way or in memory, that no checksum caught"
    )
    does_not_certify: ClassVar[str] = "an error that reaches all ranks alike (then the replicas still agree)"

    element: float = parameter(
        "which element of the result, as a fraction", default=0.5, minimum=0.0, maximum=1.0, drawn=True
    )
    bit: int = parameter("which bit of it, 0 is the lowest", kind="int", default=20, minimum=0, maximum=63)
