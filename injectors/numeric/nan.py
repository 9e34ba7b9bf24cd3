"""`numeric.nan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class NumericNan(InsideFault):
    """Set one element of a gradient to NaN, just before the optimizer's step.

    Proof: the agent reads the element before and after, and names tensor and index.
    Undo: none; a clip of the gradient's norm spreads it to all of them.
    """

    id: ClassVar[str] = "numeric.nan"
    stands_for: ClassVar[str] = "an overflow in half precision, a division by zero in one sample's loss"
    does_not_certify: ClassVar[str] = (
        "a NaN that was there before the gradients were averaged: this one is on one rank only"
    )

    element: float = parameter(
        "which element of all gradients, as a fraction", default=0.5, minimum=0.0, maximum=1.0, drawn=True
    )
