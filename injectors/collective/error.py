"""`collective.error`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault


@dataclass(frozen=True, kw_only=True)
class CollectiveError(InsideFault):
    """Let the backend of one rank fail in a collective: it raises, below the runtime, and sends nothing.

    Proof: the agent reports the backend call that it replaced by an error.
    Undo: none; one call is concerned.
    """

    id: ClassVar[str] = "collective.error"
    stands_for: ClassVar[str] = (
        "a transport error that one side notices first: a broken link, a failed NIC, NCCL returning an error"
    )
    does_not_certify: ClassVar[str] = (
        "a connection that is gone: the sockets stay open, and the peers notice nothing by themselves"
    )
    expects: ClassVar[str | None] = "collective_error"
