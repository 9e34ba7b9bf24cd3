"""`doctor`: which mechanism each fault would take here, from probes that run once and may break."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from chaos.cli import doctor
from injectors.catalogue import CATALOGUE
from injectors.fault import Mechanism
from injectors.process.kill import ProcessKill
from tests.chaos.runs import chaos


def ways(*probes: object) -> tuple[Mechanism, ...]:
    return tuple(Mechanism(name=f"way {n}", fidelity="real", probe=probe) for n, probe in enumerate(probes))  # type: ignore[arg-type]


def ladder_of(*probes: object) -> doctor.Ladder:
    class Probed(ProcessKill):
        mechanisms: ClassVar[tuple[Mechanism, ...]] = ways(*probes)

    return doctor.ladders({"process.kill": Probed})[0]


def test_the_first_that_works_is_taken() -> None:
    ladder = ladder_of(lambda: "no module: apt-get install it", lambda: None, lambda: None)
    assert ladder.taken is not None
    assert ladder.taken.name == "way 1"
    assert ladder.as_dict()["mechanism"] == "way 1"
    assert ladder.as_dict()["ladder"][0]["missing"] == "no module: apt-get install it"


def test_where_none_works_that_is_said() -> None:
    ladder = ladder_of(lambda: "no GPU")
    assert ladder.taken is None
    assert ladder.as_dict()["mechanism"] is None
    assert "no mechanism works here" in doctor._fault_lines([ladder])[1]


def test_a_probe_that_breaks_shows_nothing_that_works() -> None:
    def broken() -> str | None:
        raise OSError(5, "Input/output error")

    ladder = ladder_of(broken)
    assert ladder.taken is None
    assert "its probe failed: OSError(5, 'Input/output error')" in str(ladder.rungs[0].missing)


def test_a_probe_that_faults_share_runs_once() -> None:
    asked: list[int] = []

    def probe() -> str | None:
        asked.append(1)
        return None

    class Probed(ProcessKill):
        mechanisms: ClassVar[tuple[Mechanism, ...]] = ways(probe, probe)

    doctor.ladders({"a": Probed, "b": Probed})
    assert asked == [1]


def test_a_reason_is_said_once() -> None:
    ladder = ladder_of(lambda: "the kernel has no netem", lambda: None)
    lines = "\n".join(doctor._fault_lines([ladder, ladder]))
    assert lines.count("the kernel has no netem") == 1
    assert "see above" in lines


@pytest.mark.slow
def test_json_has_every_probe_and_every_fault() -> None:
    done = chaos("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    assert shown["can_run"] is True
    assert [fault["id"] for fault in shown["faults"]] == list(CATALOGUE)
    assert {"torch", "gloo", "pidfd", "cgroup"} <= {finding["name"] for finding in shown["machine"]}
    for fault in shown["faults"]:
        assert fault["mechanism"] or all(rung["missing"] for rung in fault["ladder"]), fault
