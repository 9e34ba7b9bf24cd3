"""Whose power limit is it? Pure decisions; all values in milliwatts."""

from __future__ import annotations

from enum import Enum, auto

WATT = 1000


class Whose(Enum):
    """What is to be made of a limit when ours is to be taken back."""

    OURS = auto()
    AS_BEFORE = auto()
    SOMEBODY_ELSES = auto()


def same(one_mw: int, other_mw: int) -> bool:
    """Whether two limits are one: some drivers keep whole watts only."""
    return abs(one_mw - other_mw) < WATT


def whose(limit_mw: int, set_mw: int, before_mw: int) -> Whose:
    """Whose limit is in force, if `before_mw` was read and then `set_mw` set."""
    if same(limit_mw, set_mw):
        return Whose.OURS
    return Whose.AS_BEFORE if same(limit_mw, before_mw) else Whose.SOMEBODY_ELSES


def target_mw(min_mw: int, default_mw: int, share: float) -> int | None:
    """The limit at a share of the way from the lowest to the default, in whole watts.

    Returns:
        None where it would be no lower than the default.
    """
    wanted = min_mw + share * (default_mw - min_mw)
    # Up to a whole watt: a limit below the lowest is refused by the driver.
    found = -int(-wanted // WATT) * WATT
    return None if same(found, default_mw) or found > default_mw else found
