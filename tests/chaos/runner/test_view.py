"""What a run prints, on a terminal of a given size and without one. The run itself is played."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from tests.chaos.runs import ROOT, environment

pytestmark = pytest.mark.slow

PLAY = """
import os, sys, time
from chaos.plan import Plan, PlannedFault, PlannedScenario
from chaos.runner.view import View
from tests.chaos.histories import Job
from tests.chaos.report.sample import results

fault = PlannedFault("f1", "process.kill", {"rank": 1}, {"step": 2}, False, {}, None, 1, "crash", False)
planned = PlannedScenario(
    "kill_in_backward", "", 1, {"steps": 12, "world": 3}, [fault], {}, {}, None, "twin"
)
job = Job(3).steps(2).kill(1).finish()
began = time.monotonic()
with View(sys.argv[1], Plan("sample", 1, ".", [planned])) as view:
    view.scenario("kill_in_backward", 12)
    for event in job.events:
        view.event({**event, "t": began})
        if event["event"] == "fence":
            # Until whoever reads this has seen it: a recovery takes as long as a frame stays.
            os.read(int(sys.argv[2]), 1)
    view.verdict(results()[0])
"""


def on_a_terminal(columns: int, rows: int, form: str = "rich", until: str = "dead", **env: str) -> str:
    """What a terminal of that size is sent. `until`: what it must have shown before the play goes on."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    wanted = environment(**{"TERM": "xterm-256color", **env})
    clean = {key: value for key, value in wanted.items() if key not in ("COLUMNS", "LINES")}
    go_on, seen = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", PLAY, form, str(go_on)],
        env=clean,
        cwd=ROOT,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        pass_fds=[go_on],
    )
    os.close(follower)
    os.close(go_on)
    said = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # the other end is closed: EIO, on Linux
            break
        if not part:
            break
        said += part
        if seen >= 0 and until.encode() in said:
            os.close(seen)
            seen = -1
    os.close(leader)
    assert child.wait() == 0, said.decode()
    return said.decode()


def without_codes(text: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in re.split(r"[\r\n]+", text)]


def colours(text: str) -> set[str]:
    """The codes that set a colour; bold and dim are none."""
    numbers = {code for found in re.findall(r"\x1b\[([0-9;]+)m", text) for code in found.split(";")}
    return {code for code in numbers if 30 <= int(code) <= 49}


def test_a_terminal_sees_lanes_the_fault_and_the_recovery_as_it_happens() -> None:
    said = on_a_terminal(100, 30)
    lines = without_codes(said)
    assert any(line.startswith("rank 1 dead       step 2 gen 1 ^||!x") for line in lines)
    assert "fault f1 process.kill rank 1: verified" in lines
    assert any(re.fullmatch(r"recovering rank 1 \(crash\): \d+ ms, fence", line) for line in lines)
    assert lines[-1] == "" or "PASS" in lines[-2]
    assert any("PASS  kill_in_backward" in line for line in lines)
    assert "\x1b[?25l" in said, "the cursor is hidden while the screen moves"
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l"), "and is there again afterwards"
    assert colours(said)


def test_without_colour_it_says_the_same() -> None:
    said = on_a_terminal(100, 30, NO_COLOR="1")
    assert not colours(said)
    assert any(line.startswith("rank 1 dead") for line in without_codes(said))


def test_a_narrow_terminal_gets_narrow_lines() -> None:
    lines = without_codes(on_a_terminal(40, 12))
    assert "1 dead       2 ^||!x" in lines
    # A verdict is a line of a log: the terminal wraps it, and nothing else is wider.
    assert [line for line in lines if len(line) > 40 and "PASS" not in line] == []


@pytest.mark.parametrize(("form", "term"), [("plain", "xterm-256color"), ("rich", "dumb")])
def test_plain_lines_where_nothing_can_move(form: str, term: str) -> None:
    said = on_a_terminal(80, 24, form, until="detected", TERM=term)
    assert "[1/1] kill_in_backward" in without_codes(said)
    assert "\x1b[?25l" not in said


def test_plain_lines_without_a_terminal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAY, "rich", "0"],
        stdin=subprocess.DEVNULL,
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "[1/1] kill_in_backward"
    assert "    detected rank 1 crash" in lines
    assert lines[-1].startswith("  PASS  kill_in_backward")
