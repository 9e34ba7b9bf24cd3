from __future__ import annotations

import pytest

from chaos.compare.samples import TIMED
from chaos.compare.trend import trends
from tests.chaos.compare.recorded import recorded, repeats


def test_a_row_for_each_run_and_the_newest_against_those_before() -> None:
    runs = [(f"run {seed}", repeats(seed, count=5)) for seed in range(3)]
    runs.append(("slow", repeats(9, count=10, slower="transfer")))
    other = repeats(1, count=1).model_copy(update={"suite": "another"})
    alone, trend = trends([*runs, ("one", other)])
    assert (alone.suite, alone.newest) == ("another", None)
    assert [row.run for row in trend.rows] == ["run 0", "run 1", "run 2", "slow"]
    assert trend.newest is not None
    slower = {one.timed for one in trend.newest.slower}
    assert "transfer" in slower
    assert slower <= {"transfer", "total", "measured"}
    row = trend.rows[0]
    assert (row.recoveries, row.plan) == (10, recorded()["plan_hash"][:8])
    assert set(row.median_s) == set(TIMED)
    assert trend.rows[3].median_s["transfer"] == pytest.approx(2 * row.median_s["transfer"], rel=0.5)


def test_what_was_not_timed_is_absent() -> None:
    run = repeats(1, count=1)
    for scenario in run.scenarios:
        scenario.recoveries.clear()
    ((row,),) = [trend.rows for trend in trends([("quiet", run)])]
    assert set(row.median_s) == {"step"}
    assert row.recoveries == 0
