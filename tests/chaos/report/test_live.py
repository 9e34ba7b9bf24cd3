import io

import pytest
from rich.console import Console

from chaos.report import LiveView
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
    assert masked(played(LiveView(2, console(False)))) == (
        "[1/2] kill_in_backward\n"
        "    fired f1 process.kill rank 1 step 2 phase backward\n"
        "    verified f1 process.kill rank 1 step 2 phase backward\n"
        "    detected rank 1 crash\n"
        "    recovered rank 1 in T ms, generation 2\n"
        "  PASS  kill_in_backward  18 invariants hold\n"
    )


def test_a_terminal_shows_progress_and_keeps_the_verdict() -> None:
    text = played(LiveView(2, console(True)))
    assert "PASS" in text
    assert "\x1b[" in text


def test_plain_lines_on_a_terminal_when_asked_for() -> None:
    assert "[1/2] kill_in_backward\n" in played(LiveView(2, console(True, color_system=None), plain=True))


def test_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = played(LiveView(2, console(True), plain=True))
    assert not any(f"\x1b[{code}" in text for code in ("31", "32", "33", "1;32"))


def test_the_moving_part_shows_step_and_generation() -> None:
    view = LiveView(2, console(False))
    view.on_event({"event": "step.commit", "step": 9})
    view.on_scenario("one", steps=10)
    view.on_event({"event": "step.commit", "rank": 0, "step": 4})
    view.on_event({"event": "generation.open", "generation": 3})
    view.on_event({"event": "budget.exhausted", "reason": "rank 1 died 3 times in step 4"})
    view.on_event({"event": "nothing known", "step": "x"})
    view.console.print(view.render())
    out = view.console.file
    assert isinstance(out, io.StringIO)
    assert "step 5/10  generation 3" in out.getvalue()
    assert "budget.exhausted: rank 1 died 3 times in step 4" in out.getvalue()
