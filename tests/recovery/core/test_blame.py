"""Who is blamed, from counters alone."""

from __future__ import annotations

from dataclasses import replace

from recovery.core.blame import Progress, judge
from recovery.core.config import Config

CONFIG = Config(world_size=4)
NOW = 100.0


def member(rank: int, **counters: float) -> Progress:
    base = Progress(
        rank=rank, proc=rank + 1, generation=1, version=5, warm=True, issued=10, done=9,
        issued_at=NOW - 2, changed_at=NOW - 2, busy_until=0.0, starved_s=0.0, common_chain=7,
    )  # fmt: skip
    return replace(base, **counters)  # type: ignore[arg-type]


def others() -> list[Progress]:
    return [member(0), member(1), member(3)]


def late(**counters: float) -> Progress:
    return member(2, **({"issued": 9, "changed_at": NOW - 2.1} | counters))


def test_the_rank_that_has_not_arrived_is_blamed() -> None:
    verdict = judge([*others(), late()], CONFIG, 0.05, NOW)
    assert verdict is not None
    assert (verdict.rank, verdict.kind) == (2, "hang")
    assert "entered 9 of 10 collectives" in verdict.detail


def test_nobody_is_blamed_while_everyone_is_on_time() -> None:
    fresh = [replace(one, issued_at=NOW - 0.3) for one in others()]
    assert judge([*fresh, late()], CONFIG, 0.05, NOW) is None


def test_a_slow_step_earns_a_longer_limit() -> None:
    assert judge([*others(), late()], CONFIG, 1.0, NOW) is None


def test_a_cold_rank_is_given_time_to_compile() -> None:
    assert judge([*others(), late(warm=False)], CONFIG, 0.05, NOW) is None


def test_a_declared_long_phase_is_not_late() -> None:
    assert judge([*others(), late(busy_until=NOW + 1)], CONFIG, 0.05, NOW) is None


def test_time_without_a_core_does_not_count() -> None:
    assert judge([*others(), late(starved_s=1.5)], CONFIG, 0.05, NOW) is None


def test_a_rank_with_another_sequence_is_named_at_once() -> None:
    verdict = judge([*others(), member(2, common_chain=8)], CONFIG, None, NOW)
    assert verdict is not None
    assert (verdict.rank, verdict.kind) == (2, "desync")


def test_a_split_vote_names_nobody() -> None:
    pair = [member(0), member(1, common_chain=8)]
    verdict = judge(pair, CONFIG, None, NOW)
    assert verdict is not None
    assert (verdict.proc, verdict.kind) == (None, "desync")


def test_a_network_that_does_not_deliver_is_nobodys_fault() -> None:
    stuck = [member(rank, changed_at=NOW - 4) for rank in range(4)]
    verdict = judge(stuck, CONFIG, 0.05, NOW)
    assert verdict is not None
    assert (verdict.proc, verdict.kind) == (None, "hang")


def test_one_rank_alone_waits_for_nobody() -> None:
    assert judge([member(0, done=0)], CONFIG, 0.05, NOW + 1000) is None


def test_who_waits_for_a_busy_rank_is_not_blamed_in_its_place() -> None:
    busy = member(2, issued=8, busy_until=NOW + 10)
    waiting_for_it = member(3, issued=9)
    assert judge([member(0), member(1), waiting_for_it, busy], CONFIG, 0.05, NOW) is None


def test_a_rank_that_ended_its_step_short_is_out_of_step_and_not_late() -> None:
    short = late(sealing=True, changed_at=NOW - 0.3)
    quick = [replace(one, issued_at=NOW - 0.3) for one in others()]
    verdict = judge([*quick, short], CONFIG, 0.05, NOW)
    assert verdict is not None
    assert (verdict.rank, verdict.kind) == (2, "desync")
    assert verdict.detail == "rank 2 ended its step after 9 collectives, others wait in their number 10"


def test_counters_that_are_just_being_written_prove_nothing() -> None:
    short = late(sealing=True, changed_at=NOW - 0.1)
    quick = [replace(one, issued_at=NOW - 0.1) for one in others()]
    assert judge([*quick, short], CONFIG, 0.05, NOW) is None


def test_a_rank_that_has_not_seen_that_its_wait_is_over_is_not_out_of_step() -> None:
    short = late(sealing=True, changed_at=NOW - 0.9)
    gone_on = [replace(one, issued_at=NOW - 0.9, version=6) for one in others()]
    assert judge([*gone_on, short], CONFIG, 0.05, NOW) is None
