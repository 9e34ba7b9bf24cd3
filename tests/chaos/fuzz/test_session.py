"""The bookkeeping of rounds, with a stand-in for real runs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.fuzz.log import NAME, Log
from chaos.fuzz.planned import plan_of
from chaos.fuzz.seen import FAILED, FLAKY, INCONCLUSIVE, KNOWN, PASS, Seen
from chaos.fuzz.session import Run, Search, Shrink
from chaos.plan import Plan
from chaos.runner.interrupt import Interrupted
from chaos.testing.repeats import Repeats
from injectors.catalogue import CATALOGUE
from tests.chaos.fuzz.spaces import FACTS, space
from tests.chaos.fuzz.stand_in import FirstFaultOnly, StandIn, has

SPACE = space()


def search(log: Log, run: Run, shrink: Shrink | None = None, **more: Any) -> Search:
    plan = partial(plan_of, SPACE.suite, 3)
    return Search(
        SPACE,
        3,
        log,
        lambda drawn: plan(drawn, FACTS, CATALOGUE),
        run,
        shrink or FirstFaultOnly("collective.hang"),
        **more,
    )


def up_to(rounds: int) -> Any:
    return lambda seen: seen.rounds < rounds


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / NAME).read_text().splitlines()]


def without_times(folder: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "wall_s"} for line in lines(folder)]


def test_a_plan_that_reaches_something_new_is_kept(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        one = search(log, StandIn())
        one.go(up_to(30))
    assert one.seen.categories == {PASS: 30}
    assert set(one.seen.reached) == set(SPACE.aims)
    kept = sorted((tmp_path / "corpus").iterdir())
    assert [path.stem for path in kept] == [f"{line['round']:04}" for line in lines(tmp_path) if line["new"]]
    assert 0 < len(kept) < 30
    plan = Plan.from_dict(json.loads(kept[0].read_text()))
    assert (plan.hash, plan.scenarios[0].name) == (lines(tmp_path)[0]["plan"], "round_1")
    assert [path.name for path in (tmp_path / "rounds").iterdir()] == [], (
        "reports of what passes are not kept"
    )


def test_a_failure_is_repeated_kept_and_shrunk_once(tmp_path: Path) -> None:
    run, shrink = StandIn(has("collective.hang")), FirstFaultOnly("collective.hang")
    with Log(tmp_path) as log:
        one = search(log, run, shrink)
        one.go(lambda seen: seen.categories[KNOWN] < 2)
    (found,) = one.seen.found
    first = next(line for line in lines(tmp_path) if line["category"] == FAILED)
    assert (first["failures"], first["runs"]) == (2, 2)
    assert found.id == f"{first['round']:04}-replicas_agree"
    assert (found.invariant, found.faults) == ("replicas_agree", ("collective.hang",))
    (asked,) = shrink.asked
    assert asked.result.folder == tmp_path / "rounds" / f"{first['round']:04}" / "run-1"
    assert (asked.result.folder / "report.json").is_file(), "the reports of a failure stay where they are"
    home = tmp_path / "findings" / found.id
    assert Plan.from_dict(json.loads((home / "plan.json").read_text())).hash == first["plan"]
    known = [line for line in lines(tmp_path) if line["category"] == KNOWN]
    assert [(line["again"], line["runs"]) for line in known] == [(found.id, 1)] * 2
    assert sorted(path.stem for path in (home / "again").iterdir()) == [
        f"{line['round']:04}" for line in known
    ]


def test_a_failure_that_does_not_come_again_is_flaky_and_nothing_else(tmp_path: Path) -> None:
    shrink = FirstFaultOnly("collective.hang")
    with Log(tmp_path) as log:
        one = search(log, StandIn(lambda scenario, before: before == 0 and len(scenario.faults) > 0), shrink)
        done = one.one()
        assert (done.category, done.failures, done.runs) == (FLAKY, 1, 3)
    assert shrink.asked == []
    assert one.seen.found == []
    assert sorted(path.name for path in (tmp_path / "rounds" / "0001").iterdir()) == [
        "run-1",
        "run-2",
        "run-3",
    ]


def test_k_of_n_is_the_users(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        done = search(log, StandIn(lambda s, before: before != 1), repeats=Repeats(3, 4)).one()
        assert (done.category, done.failures, done.runs) == (FAILED, 3, 4)


def test_a_fault_that_does_not_strike_reaches_nothing(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        done = search(log, StandIn(verdict="INCONCLUSIVE", fired=False)).one()
    assert (done.category, done.reached, done.new, done.untested) == (INCONCLUSIVE, (), (), False)
    assert not (tmp_path / "corpus").exists()


def test_a_job_that_does_not_run_is_no_failure_of_it(tmp_path: Path) -> None:
    run = StandIn(verdict="ERROR", fired=False)
    with Log(tmp_path) as log:
        done = search(log, run).one()
    assert (done.category, done.runs, done.untested) == (INCONCLUSIVE, 1, True)
    assert len(run.plans) == 1


def broken_twice(folder: Path, at: int) -> None:
    """A search that is ended in two runs, and taken up again each time."""
    for killed_at in (at, 2, 0):
        run = StandIn(has("collective.hang"), killed_at=killed_at)
        with Log(folder) as log:
            one = search(log, run)
            try:
                one.go(up_to(20))
            except Interrupted:
                assert killed_at
            else:
                assert not killed_at


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 4])
def test_interrupted_and_taken_up_it_is_as_if_nothing_had_been(tmp_path: Path, at: int) -> None:
    with Log(tmp_path / "whole") as log:
        search(log, StandIn(has("collective.hang"))).go(up_to(20))
    broken_twice(tmp_path / "broken", at)
    assert without_times(tmp_path / "broken") == without_times(tmp_path / "whole")
    names = [
        sorted(p.relative_to(tmp_path / half) for p in (tmp_path / half).rglob("*.json"))
        for half in ("whole", "broken")
    ]
    assert names[0] == names[1]


def test_what_a_killed_round_left_is_not_mixed_with_its_repetition(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        one = search(log, StandIn(has("collective.hang")))
        one.go(lambda seen: not seen.found)
        last = one.seen.rounds
        finding = one.seen.found[0].id
    (tmp_path / "findings" / finding / "again").mkdir()
    (tmp_path / "rounds" / f"{last:04}" / "run-9").mkdir()
    text = (tmp_path / NAME).read_text().splitlines(keepends=True)
    (tmp_path / NAME).write_text("".join(text[:-1]) + text[-1][:40])
    with Log(tmp_path) as log:
        assert log.cut_off
        again = search(log, StandIn(has("collective.hang")))
        again.one()
        assert again.seen.found[0].id == finding
    assert not (tmp_path / "findings" / finding / "again").exists()
    assert not (tmp_path / "rounds" / f"{last:04}" / "run-9").exists()


def test_an_interrupted_shrinking_keeps_the_finding(tmp_path: Path) -> None:
    shrink = FirstFaultOnly("collective.hang", interrupted=True)
    with Log(tmp_path) as log:
        one = search(log, StandIn(has("collective.hang")), shrink)
        with pytest.raises(Interrupted):
            one.go(up_to(50))
        assert len(one.seen.found) == 1
        assert log.rounds[-1].found == one.seen.found[0]


def test_a_finding_that_was_dealt_with_is_found_anew(tmp_path: Path) -> None:
    run = StandIn(has("collective.hang"))
    with Log(tmp_path) as log:
        one = search(log, run)
        one.go(lambda seen: not seen.found)
        first = one.seen.found[0].id
    with Log(tmp_path) as log:
        one = search(log, run, dropped=frozenset({first}))
        assert one.seen.found == []
        one.go(lambda seen: not seen.found)
        assert one.seen.found[0].id != first


def test_a_line_is_said_once_the_round_is_noted(tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    with Log(tmp_path) as log:
        one = search(log, StandIn(), say=lambda done: said.append((done.number, len(log.rounds))))
        one.go(up_to(3))
    assert said == [(1, 1), (2, 2), (3, 3)]
    assert isinstance(one.seen, Seen)
