from __future__ import annotations

import json

from chaos.compare.compare import Limits, compare
from chaos.compare.text import data_of, lines_of, outcome_of, rows_of
from tests.chaos.compare.recorded import repeats


def test_the_outcome_is_the_last_line() -> None:
    same = compare([repeats(1)], [repeats(2)])
    assert lines_of(same)[-1] == outcome_of(same) == "no regression"
    slow = compare([repeats(1)], [repeats(2, slower="transfer")])
    assert lines_of(slow)[-1].startswith("REGRESSED: transfer of all scenarios ")
    few = compare([repeats(1, count=1)], [repeats(2, count=1)])
    assert outcome_of(few).startswith("INCONCLUSIVE: too few repeats")
    none = compare([repeats(1, count=1)], [repeats(2, count=1).model_copy(update={"suite": "other"})])
    assert outcome_of(none) == "INCONCLUSIVE: the two have no scenario in common"


def test_the_table_shows_all_together_and_what_changed_or_everything() -> None:
    found = compare([repeats(1)], [repeats(2, slower="transfer")])
    short, long = rows_of(found, everything=False), rows_of(found, everything=True)
    assert len(long) == len(found.times)
    assert {row[1] for row in short if row[0] == "detect"} == {"all scenarios"}
    (shown,) = [row for row in short if row[:2] == ("transfer", "all scenarios")]
    assert shown[2].endswith("(n=20)")
    assert shown[-1] == "slower"


def test_the_rule_is_stated_with_the_values_it_used() -> None:
    found = compare([repeats(1)], [repeats(2)], Limits(slower_than=1.7, alpha=0.05, floor_s=0.02))
    (rule,) = [line for line in lines_of(found) if line.startswith("slower: ")]
    assert "over 1.7 (shorter times count as 20 ms)" in rule
    assert f"p at most {found.p_limit:.2g}, which is 0.05 for all comparisons together" in rule


def test_the_data_is_json() -> None:
    data = json.loads(json.dumps(data_of(compare([repeats(1)], [repeats(2, slower="transfer")]))))
    assert data["regressed"] is True
    slow = [one for one in data["times"] if one["change"] == "slower"]
    assert slow[0]["test"]["superiority"] > 0.9
