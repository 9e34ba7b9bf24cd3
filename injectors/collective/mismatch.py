"""`collective.mismatch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class CollectiveMismatch(InsideFault):
    """Let one rank issue a collective with a longer tensor than its peers.

    With gloo a peer with the shorter buffer aborts (exit by SIGABRT), so this is a crash as well.
    Proof: the agent reports both lengths.
    Undo: none.
    """

    id: ClassVar[str] = "collective.mismatch"
    stands_for: ClassVar[str] = (
        "a last batch of another size, an embedding that grew on one rank, a bucket layout that differs"
    )
    does_not_certify: ClassVar[str] = "a mismatch of types or of operations"
    expects: ClassVar[str | None] = "crash"

    elements: int = parameter("how many elements longer", kind="int", default=1, minimum=1, maximum=1 << 24)
