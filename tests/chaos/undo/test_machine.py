"""What the undo proof compares: a difference is seen, and another run's things are that run's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.undo import machine
from tests.chaos.undo.strangers import TABLE_NAME, strangers


def test_new_gone_and_changed_are_differences() -> None:
    found = machine.differences({"a": "1", "b": "1"}, {"b": "2", "c": "1"}, "120000-aaaaaaaa")
    assert [line.split("\n")[0] for line in found] == ["gone: a", "changed: b", "new: c"]


@pytest.mark.parametrize(
    "text",
    [
        '"torch-chaos.run": "{}"',
        'comment "torch-chaos run {} fault f1"',
        "cgroup /sys/fs/cgroup/cpu/torch-chaos-{}-f1-77",
    ],
)
def test_a_difference_belongs_to_the_run_that_it_names(text: str) -> None:
    mine, other = "120000-aaaaaaaa", "120001-bbbbbbbb"
    spelled = text.format(mine.replace("-", "_") if "cgroup" in text else mine)
    assert machine.differences({}, {"x": spelled}, mine) != []
    assert machine.differences({}, {"x": spelled}, other) == []
    assert machine.differences({}, {"x": "nobody's"}, other) != []


@pytest.mark.slow
def test_a_group_a_table_a_container_and_a_network_are_seen() -> None:
    """A comparison that misses something would prove nothing."""
    before = machine.snapshot()
    with strangers() as made:
        state = machine.snapshot()
        assert set(made) <= state.keys() - before.keys()
        if os.geteuid() == 0 and Path("/usr/sbin/nft").exists():
            assert f"nft table inet {TABLE_NAME}" in made
    assert [line for line in machine.differences(before, machine.snapshot()) if "stranger" in line] == []
