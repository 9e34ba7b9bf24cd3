"""The screen at the sizes that terminals have; what it says is there without colour too."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from chaos.report.course import Course
from chaos.report.now import FaultNow, Lane, Now, State
from chaos.report.screen import Size, lines_of, waiting
from tests.chaos.histories import Job

FAULTS = (FaultNow("f1", "process.kill", "step 2, backward, rank 1", "crash"),)


def now(until: str, world: int = 3) -> Now:
    job = Job(world).steps(2).kill(1).finish()
    made = Now("kill_in_backward", steps=12, world=world, faults=FAULTS)
    for event in job.events:
        made.feed(event)
        if event["event"] == until:
            break
    return made


def screen(shown: Now, width: int, height: int = 24, told: tuple[str, ...] = ()) -> list[str]:
    since_t = shown.recovering.since_t if shown.recovering else 0.0
    course = Course([12, 12, 12], took_s=[10.0])
    at_s = (since_t + 0.1234, 2.0)
    return [line.plain for line in lines_of(course, shown, told, at_s, Size(width, height))]


def test_eighty_columns_while_a_rank_is_recovered() -> None:
    assert screen(now("fence"), 80, told=("fired f1 process.kill rank 1", "detected rank 1 crash")) == [
        "[2/3] kill_in_backward".ljust(65) + "about 18 s left",
        "step 2/12  generation 1  [####--------------------]",
        "fault f1 process.kill rank 1: verified",
        "recovering rank 1 (crash): 123 ms, fence",
        "rank 0 recovering step 2 gen 1 ^||<",
        "rank 1 dead       step 2 gen 1 ^||!x",
        "rank 2 recovering step 2 gen 1 ^||<",
        "| step  + again  = from a peer  < taken back  ! fault  x gone  ^ new",
        "  fired f1 process.kill rank 1",
        "  detected rank 1 crash",
    ]


def test_forty_columns() -> None:
    assert screen(now("fault.armed"), 40) == [
        "[2/3] kill_in_backward   about 18 s left",
        "step 2/12  generation 1",
        "fault f1 process.kill: armed, step 2, b…",
        "0 running    2 ^||",
        "1 running    2 ^||",
        "2 running    2 ^||",
    ]


def test_a_recovery_that_is_over_tells_its_phases() -> None:
    assert screen(now("recovery.done"), 120)[3] == (
        "recovered rank 1 in 150 ms: detect 30, fence 10, regroup 50, transfer 20, resume 40"
    )


def test_more_ranks_than_lines_show_the_troubled_ones_and_count_the_rest() -> None:
    lines = screen(now("fence", world=64), 80, height=10)
    assert len(lines) == 10
    assert lines[4].startswith("rank  1 dead")
    assert lines[5].startswith("rank  0 recovering")
    assert lines[8] == "and 60 more: 60 recovering; step 2"
    assert lines[9].startswith("| step")


def test_those_that_are_counted_say_how_far_they_are() -> None:
    many = Now("it", steps=9)
    for rank in range(20):
        many.lanes[rank] = Lane(rank, State.RUNNING if rank else State.STOPPED, step=rank // 10)
    assert screen(many, 40, height=5)[-1] == "and 18 more: 18 running; step 1 to 2"


@pytest.mark.parametrize("width", [1, 20, 40, 80, 120])
@pytest.mark.parametrize("height", [1, 3, 8, 24, 60])
@pytest.mark.parametrize("until", ["job.start", "fault.fired", "state.send", "recovery.done", "leak.check"])
def test_no_line_is_wider_and_there_are_no_more_than_fit(width: int, height: int, until: str) -> None:
    lines = screen(now(until, world=16), width, height, told=("a long line " * 20,) * 9)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height


@pytest.mark.parametrize("color", ["truecolor", None])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_colour_adds_nothing_that_is_not_in_words(width: int, color: str | None) -> None:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=color, legacy_windows=False
    )  # type: ignore[arg-type]
    shown = now("fence")
    lines = lines_of(Course([12]), shown, (), (0.0, 0.0), Size(width, 24))
    for line in lines:
        console.print(line)
    out = console.file
    assert isinstance(out, io.StringIO)
    assert ("\x1b[1;31m" in out.getvalue()) == (color is not None)
    text = "\n".join(line.plain for line in lines)
    assert all(word in text for word in ("dead", "recovering", "verified", "crash"))
    if color is None:
        assert (
            out.getvalue().replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "") == text + "\n"
        )


def test_between_two_scenarios() -> None:
    assert waiting(Course([1, 2, 3], took_s=[1.0])).plain == "1 of 3 scenarios"
