"""Which value of an option counts, and what it may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.testing.options import OPTIONS, BadOption, Given, Options, given

SEED = OPTIONS[0]
HERE = Path("/project")
KNOWN = ("netns", "docker", "process.kill", "all")
NAMES = "one of all, docker, netns, process.kill"


def read(last: Any = None, **values: str) -> Options:
    return Options.of(
        {name: Given(value, f"--{name}") for name, value in values.items()}, lambda: last, HERE, lambda: KNOWN
    )


def test_names_are_one_word_in_three_spellings() -> None:
    assert [option.name for option in OPTIONS] == ["seed", "profile", "report", "require", "repeat"]
    assert (SEED.flag, SEED.key, SEED.variable) == (
        "--torch-chaos-seed",
        "torch_chaos_seed",
        "TORCH_CHAOS_SEED",
    )


@pytest.mark.parametrize(
    ("line", "environment", "ini", "value", "source"),
    [
        ("1", "2", "3", "1", "--torch-chaos-seed"),
        (None, "2", "3", "2", "TORCH_CHAOS_SEED"),
        (None, "", "3", "3", "torch_chaos_seed in the ini file"),
    ],
)
def test_the_command_line_beats_the_environment_beats_the_ini_file(
    line: str | None, environment: str, ini: str, value: str, source: str
) -> None:
    assert given(SEED, line, {"TORCH_CHAOS_SEED": environment}, ini) == Given(value, source)


def test_what_nobody_gave_is_the_default() -> None:
    assert given(SEED, None, {}, "") is None
    assert read() == Options()
    assert read().seed.number is None


def test_values_are_read() -> None:
    options = read(
        seed="7", profile="torch-chaos-ci", report="out", require="netns, process.kill", repeat="3"
    )
    assert options.seed.number == 7
    assert options.profile == "ci"
    assert options.report == HERE / "out"
    assert options.require == {"netns", "process.kill"}
    assert options.repeat == 3


def test_a_random_seed_is_another_one_each_time() -> None:
    drawn = {read(seed="random").seed.number for _ in range(4)}
    assert None not in drawn
    assert len(drawn) > 1


def test_the_last_seed_is_that_of_the_run_before() -> None:
    assert read(seed="last", last=41).seed.number == 41
    with pytest.raises(BadOption, match="no earlier run with a seed is known"):
        read(seed="last")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("seed", "x", "--seed=x: not a whole number from 0 on"),
        ("seed", "-1", "--seed=-1: not a whole number from 0 on"),
        ("repeat", "0", "--repeat=0: not a whole number from 1 on"),
        (
            "require",
            "netns,dockr",
            f"--require=netns,dockr: unknown name 'dockr'\n  mend: did you mean 'docker'? {NAMES}",
        ),
        ("require", "warp", f"--require=warp: unknown name 'warp'\n  mend: {NAMES}"),
        ("profile", "fast", "--profile=fast: not a profile\n  mend: one of dev, ci, nightly"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(name: str, value: str, told: str) -> None:
    with pytest.raises(BadOption) as refused:
        read(**{name: value})
    assert str(refused.value) == told
