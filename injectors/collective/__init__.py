"""Faults of one collective: late, missing, one too many, failing, wrong."""

from injectors.collective.corrupt import CollectiveCorrupt
from injectors.collective.delay import CollectiveDelay
from injectors.collective.error import CollectiveError
from injectors.collective.extra import CollectiveExtra
from injectors.collective.hang import CollectiveHang
from injectors.collective.mismatch import CollectiveMismatch
from injectors.collective.skip import CollectiveSkip
from injectors.fault import Fault

FAULTS: tuple[type[Fault], ...] = (
    CollectiveHang,
    CollectiveDelay,
    CollectiveError,
    CollectiveSkip,
    CollectiveExtra,
    CollectiveMismatch,
    CollectiveCorrupt,
)
