"""The small parts of the runner: ranks, events, twins, interruptions, folders."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.errors import Refused, TargetFailed
from chaos.history import History
from chaos.plan import PlannedScenario, canonical
from chaos.runner import context, preflight
from chaos.runner.events import EventLog, Tail, merge
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.runner.naming import Names
from chaos.runner.ranks import Ranks
from chaos.runner.scenario import Attempt
from chaos.runner.twins import Twins
from chaos.targets import End


def follow(*events: dict[str, Any]) -> Ranks:
    ranks = Ranks()
    for event in events:
        ranks.feed({"source": "recovery", **event})
    return ranks


def test_ranks_follow_starts_promotions_and_ends() -> None:
    started = [{"event": "worker.start", "rank": r, "pid": 10 + r, "start_ticks": 100 + r} for r in (0, 1)]
    ranks = follow(
        *started,
        {"event": "worker.start", "pid": 20, "start_ticks": 120, "role": "spare"},
        {"event": "worker.exit", "pid": 11, "rank": 1},
    )
    assert ranks.holders == {0: 10}
    ranks.feed({"source": "recovery", "event": "worker.promoted", "pid": 20, "rank": 1})
    assert ranks.holders == {0: 10, 1: 20}
    assert ranks.ticks[None, 20] == 120
    # The end of a process that no longer holds the rank changes nothing.
    ranks.feed({"source": "recovery", "event": "worker.exit", "pid": 11, "rank": 1})
    assert ranks.holders[1] == 20


def test_pids_that_agents_name_are_kept_apart() -> None:
    ranks = Ranks()
    ranks.feed({"source": "agent", "event": "worker.start", "rank": 0, "pid": 5, "start_ticks": 9})
    assert ranks.holders == {}
    assert ranks.inner == {0: (5, 9)}


def test_first_commits_are_counted_by_rank() -> None:
    ranks = follow(
        {"event": "step.commit", "rank": 0, "step": 0, "t": 1.5},
        {"event": "step.commit", "rank": 1, "step": 0, "t": 2},
    )
    assert ranks.committed == {0, 1}
    assert ranks.first_commit_t == 1.5


def test_a_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    tail = Tail(path)
    assert tail.events() == []
    with path.open("w") as file:
        file.write('{"event":"a"}\n{"eve')
        file.flush()
        assert tail.events() == [{"event": "a"}]
        file.write('nt":"b"}\nrubbish\n')
        file.flush()
    assert tail.events() == [{"event": "b"}]
    assert tail.events() == []


def test_the_view_is_told_what_was_read_in_silence_as_well(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    unused: Any = None
    attempt = Attempt(unused, unused, unused, tmp_path, [], 1, Interrupts(), told.append)
    attempt._tail = Tail(tmp_path / "events.jsonl")
    steps = [{"event": "step.commit", "rank": 0, "step": step, "source": "agent"} for step in range(3)]
    ours = {"event": "fault.armed", "source": "engine"}
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(e) + "\n" for e in [*steps[:2], ours]))
    attempt._look_quietly()
    assert told == []
    assert attempt._ranks.steps == 2
    with open(tmp_path / "events.jsonl", "a") as file:
        file.write(json.dumps(steps[2]) + "\n")
    attempt._look()
    # The engine's own events were told when they were written.
    assert told == steps
    attempt._look()
    assert told == steps


def test_merging_sorts_and_names_processes_as_the_engine_knows_them(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "raw")
    log.emit("late", t=3.0)
    log.emit("early", t=1.0)
    log.close()
    log.emit("after the end")
    with (tmp_path / "raw").open("a") as file:
        file.write('{"t":2.0,"event":"x","pid":5,"source":"agent"}\n{"t": torn')
    merge(tmp_path / "raw", tmp_path / "history.jsonl", Names({(None, 5, 9): 5005}))
    history = History.load(tmp_path / "history.jsonl")
    assert [event["event"] for event in history.events] == ["early", "x", "late"]
    assert history.events[1]["pid"] == 5005
    assert history.events[1]["ns_pid"] == 5
    assert history.torn == 1
    assert not (tmp_path / "raw").exists()


def scenario(twin: str = "abc") -> PlannedScenario:
    return SimpleNamespace(twin=twin, target={"kind": "x"})  # type: ignore[return-value]  # all that is read


WELL = End(0)


def made(folder: Path, end: End | None = WELL, commits: bool = True) -> tuple[Path, End | None]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stderr.log").write_text("warning\nValueError: no\n")
    event = {"t": 1.0, "event": "step.commit", "rank": 0, "step": 0} if commits else {"t": 1.0, "event": "x"}
    path = folder / "history.jsonl"
    path.write_text(json.dumps(event) + "\n")
    return path, end


def test_a_twin_is_run_once_and_kept(tmp_path: Path) -> None:
    runs: list[Path] = []

    def run(folder: Path) -> tuple[Path, End | None]:
        runs.append(folder)
        return made(folder)

    for attempt in ("r1", "r2"):
        twins = Twins(tmp_path / attempt, tmp_path / "cache", {})
        for _ in range(2):
            assert len(twins.get(scenario(), run).commits()) == 1
        assert (tmp_path / attempt / "abc/history.jsonl").is_file()
    assert len(runs) == 1
    # Other sources than those that the kept one ran with: it is not used.
    Twins(tmp_path / "r3", tmp_path / "cache", {canonical({"kind": "x"}): "new"}).get(scenario(), run)
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("end", "commits", "said"),
    [
        (End(1), True, "exit code 1: ValueError: no"),
        (End(None, 11), True, "signal 11: ValueError: no"),
        (None, True, "it did not end in time: ValueError: no"),
        (End(0), False, "exit code 0, but it committed no step"),
    ],
)
def test_a_target_that_fails_without_faults(
    tmp_path: Path, end: End | None, commits: bool, said: str
) -> None:
    twins = Twins(tmp_path, tmp_path / "cache", {})
    for _ in range(2):
        with pytest.raises(TargetFailed, match=said):
            twins.get(scenario(), lambda folder: made(folder, end, commits))
    assert not (tmp_path / "cache").exists()


def test_an_interruption_is_raised_once_and_waits_for_what_must_not_be_cut_short() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as interrupts:
        reached: list[str] = []

        def guarded() -> None:
            with interrupts.held():
                os.kill(os.getpid(), signal.SIGINT)
                reached.append("the end of the block")

        with pytest.raises(Interrupted):
            guarded()
        assert reached
        os.kill(os.getpid(), signal.SIGTERM)  # the second one does nothing
        assert interrupts.seen is signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_shared_memory_is_refused() -> None:
    with pytest.raises(Refused, match="is full") as caught:
        preflight.check_shm(needed=1 << 60)
    assert caught.value.exit_code == 4
    with pytest.raises(Refused, match="No such file"):
        preflight.check_shm("/nowhere")


def test_a_report_folder_belongs_to_one_run_at_a_time(tmp_path: Path) -> None:
    lock = context.take_folder(tmp_path)
    with pytest.raises(Refused, match="another run"):
        context.take_folder(tmp_path)
    lock.release()
    context.take_folder(tmp_path).release()
