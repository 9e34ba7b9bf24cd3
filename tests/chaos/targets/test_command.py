"""Target `command`: contained, its orphans seen, its steps read from its output, and nothing left of it."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.clusters import processes
from chaos.clusters.contained import Contained
from chaos.errors import UserError
from chaos.targets import Launch, Running, Setting
from chaos.targets.command import CommandTarget
from tests.chaos.runs import run

RUN = "test-command"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """`start("code")`: run Python code as a command target; all are stopped at the end."""
    started: list[Running] = []

    def begin(code: str, **spec: object) -> Running:
        script = tmp_path / f"script{len(started)}.py"
        script.write_text(code)
        target = CommandTarget(Setting({"argv": ["{python}", str(script)], "world": 1, **spec}, tmp_path))
        out = os.open(tmp_path / "out.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        env = {**os.environ, processes.MARKER: RUN}
        running = target.start(Launch(env, tmp_path / "events.jsonl", 1, tmp_path, out, out))
        os.close(out)
        started.append(running)
        return running

    yield begin
    for running in started:
        running.stop()
        running.stop()
    assert processes.marked(RUN) == []


def wait_ended(running: Running) -> None:
    assert select.select([running.end_fd], [], [], 10)[0]
    limit = time.monotonic() + 5
    while running.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)


@pytest.fixture(params=["contained", "loose"])
def way(
    request: pytest.FixtureRequest, require: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Both ways to run a command: in namespaces of its own, and where the kernel refuses those."""
    if request.param == "contained":
        require("userns")
    else:
        monkeypatch.setattr(Contained, "start", classmethod(lambda cls, *_: None))
    return str(request.param)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "end"), [("exit(7)", (7, None)), ("import os; os.kill(os.getpid(), 15)", (None, 15))]
)
def test_its_end_is_told_as_it_was(
    way: str, start: Callable[..., Running], code: str, end: tuple[int, int]
) -> None:
    running = start(code)
    wait_ended(running)
    seen = running.poll()
    assert seen is not None
    assert (seen.code, seen.signal) == end


@pytest.mark.slow
def test_orphans_of_the_target_are_seen(way: str, start: Callable[..., Running]) -> None:
    running = start("import subprocess; subprocess.Popen(['sleep', '40'], start_new_session=True)")
    wait_ended(running)
    assert [processes.argv(p.pid) for p in running.orphans()] == [["sleep", "40"]]


@pytest.mark.slow
def test_a_target_without_orphans_has_none(way: str, start: Callable[..., Running]) -> None:
    running = start("print('hello')")
    wait_ended(running)
    assert running.orphans() == []


@pytest.mark.slow
def test_stopping_reaches_what_left_its_session_and_its_environment(
    require: Callable[[str], None], start: Callable[..., Running], tmp_path: Path
) -> None:
    require("userns")
    running = start(
        "import subprocess, time\n"
        "p = subprocess.Popen(['sleep', '41'], start_new_session=True, env={})\n"
        "open('ready', 'w').close(); time.sleep(40)",
        cwd=str(tmp_path),
    )
    limit = time.monotonic() + 5
    while not (tmp_path / "ready").exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert ["sleep", "41"] in [processes.argv(pid) for pid in processes.pids()]
    began = time.monotonic()
    running.stop()
    assert ["sleep", "41"] not in [processes.argv(pid) for pid in processes.pids()]
    assert time.monotonic() - began < 1.0


@pytest.mark.slow
def test_inside_only_the_target_is_visible_and_it_keeps_its_user(
    require: Callable[[str], None], start: Callable[..., Running], tmp_path: Path
) -> None:
    require("userns")
    running = start(
        "import os; print(os.getuid(), os.getpid(), sum(n.isdigit() for n in os.listdir('/proc')))"
    )
    wait_ended(running)
    uid, pid, visible = map(int, (tmp_path / "out.log").read_text().split())
    assert uid == os.getuid()
    assert pid != 1, "as pid 1 a program ignores signals that it does not handle"
    assert visible == 2


@pytest.mark.slow
def test_the_main_process_can_be_signalled_from_outside(way: str, start: Callable[..., Running]) -> None:
    running = start("import time; time.sleep(30)")
    assert way == "loose" or processes.argv(running.pid)[0] == sys.executable
    running.signal(signal.SIGKILL)
    wait_ended(running)
    end = running.poll()
    assert end is not None
    assert end.signal == 9


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["torchrum", "x.py"], "'torchrum' cannot be found"),
        (["{python}", "nowhere.py"], "no script 'nowhere.py'"),
    ],
)
def test_what_is_not_there_is_said_before_the_start(tmp_path: Path, argv: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CommandTarget(Setting({"argv": argv, "world": 1}, tmp_path)).check()


COMMAND = """\
suite: command
seed: 1
defaults:
  target:
    kind: command
    argv: ["{{python}}", "{script}"]
    world: 1
    env: {{RANK: "0", WORLD_SIZE: "1", OMP_NUM_THREADS: "1"}}
    step: {{rule: stdout, pattern: 'step (\\d+)'}}
  bounds: {{run: 60s}}
scenarios:
  - name: a
    faults: {faults}
"""
ORPHAN = """\
import subprocess
for step in range(4):
    print("step", step)
subprocess.Popen(["sleep", "42"], start_new_session=True)
"""


@pytest.mark.slow
def test_an_orphan_is_reported_and_does_not_outlive_the_run(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    path = tmp_path / "suite.yaml"
    path.write_text(COMMAND.format(script=script, faults="[]"))
    done = run(path, tmp_path / "r")
    (scenario,) = done.report["scenarios"]
    assert done.code == 1, done.out + done.err
    assert "orphan: pid" in scenario["reason"]
    assert "sleep 42" in scenario["reason"]
    assert [e["step"] for e in done.history("a") if e["event"] == "step.commit"] == [0, 1, 2, 3]
    assert ["sleep", "42"] not in [processes.argv(pid) for pid in processes.pids()]


TRAINING = """\
import time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    optimizer.zero_grad()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    print("step", step, "done")
    time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_line_on_stdout_places_a_fault(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    path = tmp_path / "suite.yaml"
    path.write_text(
        COMMAND.format(script=script, faults="[{fault: process.kill, where: {rank: 0}, when: {step: 12}}]")
    )
    done = run(path, tmp_path / "r")
    events = done.history("a")
    (fault,) = done.report["scenarios"][0]["faults"]
    assert fault["fired"], done.out
    assert fault["verified"]
    last = max(e["step"] for e in events if e["event"] == "step.commit")
    assert 11 <= last <= 13
    assert next(e for e in events if e["event"] == "target.exit")["signal"] == 9
