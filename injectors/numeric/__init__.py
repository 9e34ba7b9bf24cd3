"""Faults of the numbers themselves: one bit, a NaN, a factor."""

from injectors.fault import Fault
from injectors.numeric.bitflip import NumericBitflip
from injectors.numeric.nan import NumericNan
from injectors.numeric.scale import NumericScale

FAULTS: tuple[type[Fault], ...] = (NumericBitflip, NumericNan, NumericScale)
