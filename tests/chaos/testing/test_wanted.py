"""From keywords to a suite that passes the checks of suite files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.errors import UserError
from chaos.suite import load_text
from chaos.testing import fault
from chaos.testing.wanted import Wanted, cluster_of, entry_of, scenario_name, suite_of
from injectors.catalogue import CATALOGUE

PROGRAM = {"kind": "recovery", "workload": "train.py"}


def scenario(**keywords: Any) -> dict[str, Any]:
    made: dict[str, Any] = suite_of(Wanted(**keywords), "test_x", PROGRAM)["scenarios"][0]
    return made


def test_an_unknown_keyword_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UserError) as refused:
        Wanted.of("test_x", {"wrold": 4})
    assert str(refused.value) == "test_x: unknown keyword 'wrold'\n  mend: did you mean 'world'?"


def test_what_a_call_says_stands_above_the_marker() -> None:
    call, marker = Wanted(world=4), Wanted(world=2, steps=9)
    assert call.over(marker) == Wanted(world=4, steps=9)


def test_the_suite_passes_the_checks_of_suite_files() -> None:
    made = suite_of(
        Wanted(
            faults=["process.stop", fault("process.kill", rank=0, step=5, phase="backward")],
            world=2, steps=12, spares=0, env={"A": "1"}, cluster="netns", bounds={"recover": "2s"},
            expect="PASS", recoveries=2,
        ),
        "test_x",
        PROGRAM,
    )  # fmt: skip
    loaded = load_text(json.dumps(made), "test", CATALOGUE)
    assert loaded.targets[0]["cluster"] == {"kind": "netns", "nodes": 2}
    assert loaded.targets[0]["env"] == {"A": "1"}
    assert loaded.suite.scenarios[0].bounds.run == 60.0
    assert [entry.fault for entry in loaded.suite.scenarios[0].faults] == ["process.stop", "process.kill"]


@pytest.mark.parametrize(("steps", "window"), [(20, [5, 15]), (4, [1, 3]), (1, [0, 0])])
def test_a_bare_name_strikes_a_random_rank_away_from_the_ends(steps: int, window: list[int]) -> None:
    assert entry_of("process.kill", steps) == {
        "fault": "process.kill", "where": {"rank": "random"}, "when": {"step": window},
    }  # fmt: skip


def test_a_fault_is_an_entry_of_a_suite() -> None:
    assert fault("process.stop", role="transfer_source", event="recovery.transfer", for_="2s", id="a") == {
        "fault": "process.stop", "where": {"role": "transfer_source"}, "when": {"event": "recovery.transfer"},
        "id": "a", "for": "2s",
    }  # fmt: skip
    assert fault("numeric.scale", step=3, with_={"factor": 2.0})["with"] == {"factor": 2.0}


def test_what_is_left_open_has_a_default() -> None:
    assert scenario()["target"] == {**PROGRAM, "world": 2, "steps": 20}
    assert scenario()["faults"] == []


def test_a_cluster_of_a_bare_kind_has_two_nodes() -> None:
    assert cluster_of("docker") == {"kind": "docker", "nodes": 2}
    assert cluster_of({"kind": "netns", "nodes": 4}) == {"kind": "netns", "nodes": 4}


@pytest.mark.parametrize(
    ("test", "name"),
    [("test_a[x/1]", "test_a-x-1"), ("test_" + "y" * 90, "test_" + "y" * 65), ("[é]", "test")],
)
def test_a_tests_name_becomes_one_that_scenarios_may_have(test: str, name: str) -> None:
    assert scenario_name(test) == name
