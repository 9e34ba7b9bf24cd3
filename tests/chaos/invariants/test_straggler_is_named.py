from typing import Any

from chaos.invariants.finding import Verdict
from chaos.invariants.straggler_is_named import straggler_is_named as rule
from tests.chaos.histories import CommandJob, Job, verdict_of

SLOWED: dict[str, Any] = {"expect": {"verdict": "PASS", "straggler": True}}


def job(*named: tuple[int, float]) -> Job:
    made = Job().steps(2)
    made.fault("host.cpu_throttle", 1, undone=True, expects=None)
    for rank, late_s in named:
        made.emit("straggler", rank=rank, generation=1, version=2, arrivals=3, late_s=late_s)
    return made.steps(2).finish()


def test_the_slowed_rank_is_named_most() -> None:
    assert verdict_of(rule, job((1, 0.4)), **SLOWED).verdict == Verdict.PASS
    # Told again with all of it so far; another rank was late too, for less time.
    assert verdict_of(rule, job((0, 0.5), (1, 0.4), (1, 0.9)), **SLOWED).verdict == Verdict.PASS


def test_nobody_or_somebody_else_is_named() -> None:
    assert verdict_of(rule, job(), **SLOWED).first == "rank 1 was slowed down, and nobody was named"
    other = verdict_of(rule, job((1, 0.2), (0, 0.9)), **SLOWED)
    assert other.first == "rank 1 was slowed down, and rank 0 was named (0.9 s late in all)"


def test_what_was_named_before_the_fault_is_not_its_doing() -> None:
    early = Job().steps(1)
    early.emit("straggler", rank=1, generation=1, version=1, arrivals=3, late_s=1.0)
    early.fault("host.cpu_throttle", 1, undone=True, expects=None)
    assert verdict_of(rule, early.steps(2).finish(), **SLOWED).verdict == Verdict.VIOLATED


def test_too_thin_or_not_its_business() -> None:
    assert verdict_of(rule, Job().steps(2).finish(), **SLOWED).detail == "no fault fired"
    assert verdict_of(rule, job((0, 0.9))).verdict == Verdict.NOT_APPLICABLE
    assert verdict_of(rule, CommandJob().steps(2).finish(), **SLOWED).verdict == Verdict.NOT_APPLICABLE
