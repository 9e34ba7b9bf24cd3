"""`storage.truncate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, ClassVar

from injectors.fault import parameter
from injectors.storage.resting import RestingFault

TAILS = ("cut", "zeros")


@dataclass(frozen=True, kw_only=True)
class StorageTruncate(RestingFault):
    """Take away the end of a file at rest, for example of the newest checkpoint.

    `tail: cut` makes it shorter; `tail: zeros` leaves its length and lets the end read as zeros, which is how
    a file looks that was torn by a power loss after its length, but not its data, reached the disk.
    Proof: its SHA-256 before and after, read from outside the job.
    Undo: the original is put back byte for byte, unless the job has written or removed the file since.
    """

    id: ClassVar[str] = "storage.truncate"
    stands_for: ClassVar[str] = (
        "a save that was cut off by a crash, a copy that stopped half-way, a disk that was full"
    )
    does_not_certify: ClassVar[str] = "a file that is missing as a whole, or one that is being written"

    keep: float = parameter("how much is left, as a fraction", default=0.5, minimum=0.0, maximum=0.999)
    tail: str = parameter("what becomes of the rest", kind="str", default="cut", choices=TAILS)

    def damage(self, file: BinaryIO) -> None:
        size = file.seek(0, 2)
        kept = int(self.keep * size)
        file.truncate(kept)
        if self.tail == "zeros":
            file.truncate(size)
