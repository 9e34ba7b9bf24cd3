"""`storage.bitflip`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from injectors.fault import parameter
from injectors.storage.resting import RestingFault


@dataclass(frozen=True, kw_only=True)
class StorageBitflip(RestingFault):
    """Flip one bit of a file at rest, for example of the newest checkpoint.

    Its size and its time of change stay. The original is kept aside.
    Proof: its SHA-256 before and after, read from outside the job.
    Undo: the original is put back byte for byte, unless the job has written or removed the file since.
    """

    id: ClassVar[str] = "storage.bitflip"
    stands_for: ClassVar[str] = (
        "bit rot, a bad cable or controller, a copy that went wrong: torch.load checks no sum of tensor data"
    )
    does_not_certify: ClassVar[str] = "storage that checks sums by itself, where such a read fails instead"

    at: float = parameter(
        "which byte, as a fraction of the file", default=0.5, minimum=0.0, maximum=1.0, drawn=True
    )
    bit: int = parameter("which bit of it, 0 is the lowest", kind="int", default=6, minimum=0, maximum=7)

    def damage(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        place = min(int(self.at * size), size - 1)
        file.seek(place)
        old = file.read(1)[0]
        file.seek(place)
        file.write(bytes([old ^ 1 << self.bit]))
