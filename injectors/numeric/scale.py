"""`numeric.scale`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class NumericScale(InsideFault):
    """Multiply all gradients of one rank by a factor, just before the optimizer's step.

    Proof: the agent reads the gradients' norm before and after.
    Undo: none.
    """

    id: ClassVar[str] = "numeric.scale"
    stands_for: ClassVar[str] = (
        "a loss scale that is applied on one rank only, a wrong divisor after the world changed"
    )
    does_not_certify: ClassVar[str] = "a factor before the average, which all ranks would share"

    factor: float = parameter("the factor", default=1000.0)
