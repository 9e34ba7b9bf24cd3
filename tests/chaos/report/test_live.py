import io

import pytest
from rich.console import Console, Group

from chaos.report import LiveView
from chaos.report.now import FaultNow
from tests.chaos.histories import Job
from tests.chaos.report.sample import masked, results


def console(terminal: bool, **more: object) -> Console:
    return Console(file=io.StringIO(), width=100, force_terminal=terminal, **more)  # type: ignore[arg-type]


def played(view: LiveView) -> str:
    job = Job(3).steps(2).kill(1).finish()
    with view:
        view.on_scenario("kill_in_backward", steps=3)
        for event in job.events:
            view.on_event(event)
        view.on_verdict(results()[0])
    out = view.console.file
    assert isinstance(out, io.StringIO)
    return out.getvalue()


def test_plain_lines_without_a_terminal() -> None:
    assert masked(played(LiveView([3, 3], console(False)))) == (
        "[1/2] kill_in_backward\n"
        "    fired f1 process.kill rank 1 step 2 phase backward\n"
        "    verified f1 process.kill rank 1 step 2 phase backward\n"
        "    detected rank 1 crash\n"
        "    recovered rank 1 in T ms, generation 2\n"
        "  PASS  kill_in_backward  18 invariants hold\n"
    )


def test_a_terminal_shows_progress_and_keeps_the_verdict() -> None:
    text = played(LiveView([3, 3], console(True)))
    assert "PASS" in text
    assert "\x1b[" in text


def test_plain_lines_on_a_terminal_when_asked_for() -> None:
    assert "[1/2] kill_in_backward\n" in played(
        LiveView([3, 3], console(True, color_system=None), plain=True)
    )


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = played(LiveView([3, 3], console(True), plain=True))
    assert not any(f"\x1b[{code}" in text for code in ("31", "32", "33", "1;32"))


def test_the_moving_part_follows_the_clock() -> None:
    time_s = [100.0]
    view = LiveView([10, 10], console(False), clock=lambda: time_s[0])
    view.on_event({"event": "step.commit", "rank": 0, "step": 9})
    assert shown(view) == ["0 of 2 scenarios"]
    view.on_scenario("one", steps=10, world=2, faults=[FaultNow("f1", "process.kill", expects="crash")])
    view.on_event({"event": "step.commit", "rank": 0, "step": 4, "t": 99.0})
    view.on_event({"event": "generation.open", "generation": 3})
    view.on_event({"event": "budget.exhausted", "reason": "rank 1 died 3 times in step 4"})
    view.on_event({"event": "fault.fired", "fault": "f1", "name": "process.kill", "rank": 1, "t": 100.0})
    assert shown(view)[1].startswith("step 5/10  generation 3")
    assert "  budget.exhausted: rank 1 died 3 times in step 4" in shown(view)
    assert "recovering rank 1 (crash): 0 ms, detect" in shown(view)
    time_s[0] = 100.25
    assert "recovering rank 1 (crash): 250 ms, detect" in shown(view)


def test_the_time_of_what_is_over_foretells_the_rest() -> None:
    time_s = [0.0]
    view = LiveView([10, 10, 10], console(False), clock=lambda: time_s[0])
    view.on_scenario("one", steps=10)
    assert "left" not in shown(view)[0]
    time_s[0] = 8.0
    view.on_verdict(results()[0])
    view.on_scenario("two", steps=10)
    assert shown(view)[0].endswith("about 16 s left")


def test_the_screen_of_a_terminal_has_its_size() -> None:
    view = LiveView([10], Console(file=io.StringIO(), width=40, height=6, force_terminal=True))
    view.on_scenario("a_name_that_is_a_good_deal_longer_than_the_screen", steps=10, world=32)
    lines = shown(view)
    assert len(lines) == 5, "one line is left for what scrolls by"
    assert lines[0] == "[1/1] a_name_that_is_a_good_deal_longer…"
    assert lines[-1] == "and 30 more: 30 starting; step 0"


def shown(view: LiveView) -> list[str]:
    """The moving part as it would be drawn now."""
    part = view.render()
    return [str(line) for line in part.renderables] if isinstance(part, Group) else [str(part)]
