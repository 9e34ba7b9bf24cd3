"""`numeric.bitflip`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.agent.act_numeric import TENSORS
from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class NumericBitflip(InsideFault):
    """Flip one bit of one element of a parameter, a gradient or an optimizer's moment.

    By default just before the optimizer's step, when the gradients are whole. The write goes past autograd.
    Proof: the agent reads the element before and after, and names tensor and index.
    Undo: none; the value spreads with the next step.
    """

    id: ClassVar[str] = "numeric.bitflip"
    stands_for: ClassVar[str] = "silent data corruption in memory or in an arithmetic unit"
    does_not_certify: ClassVar[str] = (
        "corruption that a checksum in the hardware would catch, nor one that is there before training begins"
    )

    tensor: str = parameter("what it hits", kind="str", default="param", choices=TENSORS)
    element: float = parameter(
        "which element of all such tensors, as a fraction", default=0.5, minimum=0.0, maximum=1.0, drawn=True
    )
    bit: int = parameter("which bit of it, 0 is the lowest", kind="int", default=20, minimum=0, maximum=63)
