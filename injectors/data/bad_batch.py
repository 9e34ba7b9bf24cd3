"""`data.bad_batch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class DataBadBatch(InsideFault):
    """Hand one rank a batch that training can't use, from a torch DataLoader.

    how nan, inf: the first sample of the first floating-point tensor. how out_of_range: a label or token that
    no table has, or where there is none a number that is far too large. how empty: no sample at all.
    Proof: shapes, types and ranges of the batch before and after, by the agent.
    Undo: none; the loader's own tensors are not touched, the next batch is sound.
    """

    id: ClassVar[str] = "data.bad_batch"
    stands_for: ClassVar[str] = (
        "a corrupt shard, a label file of another version, a filter that leaves nothing, a broken sensor"
    )
    does_not_certify: ClassVar[str] = (
        "input that does not come from a torch DataLoader, nor data that is wrong in a way that looks right"
    )
    # What shows is up to the batch: an exception where it can't be used, nothing where it only poisons.
    expects: ClassVar[str | None] = "exception"

    how: str = parameter(
        "what is wrong with it", kind="str", default="nan", choices=("nan", "inf", "out_of_range", "empty")
    )
