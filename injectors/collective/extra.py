"""`collective.extra`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class CollectiveExtra(InsideFault):
    """Let one rank issue one collective too many, of the same kind and shape, with other numbers.

    With gloo every later sum is then wrong, and no error is raised: only a check of the results shows it.
    Proof: the agent reports the call that it added.
    Undo: none; the sequence of this rank stays shifted.
    """

    id: ClassVar[str] = "collective.extra"
    stands_for: ClassVar[str] = (
        "a metric that one rank reduces and the others do not; a retry that is not coordinated"
    )
    does_not_certify: ClassVar[str] = (
        "an extra call of another shape, which the transport itself may refuse (collective.mismatch)"
    )
    expects: ClassVar[str | None] = "desync"

    value: float = parameter("the number in all elements of the extra call", default=1.0)
