"""`collective.skip`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault


@dataclass(frozen=True, kw_only=True)
class CollectiveSkip(InsideFault):
    """Let one rank leave a collective out: the call returns at once, its tensors are as they were.

    Proof: the agent reports the call that it did not pass on, with the checksum of its tensors.
    Undo: none; every later collective of this rank meets an earlier one of the others.
    """

    id: ClassVar[str] = "collective.skip"
    stands_for: ClassVar[str] = (
        "code that calls a collective under a condition which is not the same on all ranks"
    )
    does_not_certify: ClassVar[str] = (
        "detection by tensor size: peers see a difference only where the next collective has another shape"
    )
    expects: ClassVar[str | None] = "desync"
