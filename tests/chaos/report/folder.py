"""A run's folder with every outcome in it, as a run leaves it: for the tests of what is drawn from one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.history import History
from chaos.judge import judge
from chaos.report import build
from tests.chaos.histories import CommandJob, Events, Job, changed, matching
from tests.chaos.partitions import cut_off

# What a job prints ends up in reasons, details and evidence: it must never become markup.
HOSTILE = "<script>alert('x')</script> \"&' <b>bold</b> \x00 ]]>"


def with_loss(events: Events, shift: float = 0.0) -> Events:
    """The same events, each own commit with a loss that falls by the step."""
    return [
        {**event, "loss": 2.0 / (event["step"] + 1) + event["rank"] * 0.1 + shift}
        if event["event"] == "step.commit" and not event.get("adopted")
        else event
        for event in events
    ]


def jobs() -> dict[str, tuple[Job | CommandJob, Events]]:
    """Scenarios by name: what was planned, and what happened."""
    healed = Job(3).steps(2).kill(1).kill(2, during=0).steps(2).finish()
    broken = changed(healed.events, matching(event="step.commit", rank=2, step=1), digest="x")
    stopped = Job().steps(2)
    stopped.fault("process.stop", 1, undone=True)
    stopped.steps(2).finish()
    hostile = changed(
        stopped.events, matching(event="fault.fired"), evidence={"what": HOSTILE, "data": {"said": HOSTILE}}
    )
    failed = Job().finish(1, HOSTILE)
    command = CommandJob().steps(3).kill(1, checkpoint=1).steps(2).finish()
    partitioned, on_nodes = cut_off()
    return {
        "kill_in_backward.1": (healed, healed.events),
        "kill_in_backward.2": (healed, healed.events),
        "stale_state": (healed, broken),
        "hostile_words": (stopped, hostile),
        "raises_at_import": (failed, failed.events),
        "torchrun": (command, command.events),
        "cut_off": (partitioned, on_nodes),
    }


def many_steps(world: int, count: int, from_t: float = 0.0) -> Events:
    """The commits of a long, quiet run."""
    return [
        {
            "t": from_t + step * 0.02 + rank * 0.001,
            "event": "step.commit",
            "rank": rank,
            "step": step,
            "pid": rank,
        }
        for step in range(count)
        for rank in range(world)
    ]


def write_run(folder: Path, only: Sequence[str] = ()) -> Path:
    """Write the folder of a run of `jobs` (or of some of them); returns it."""
    return write_jobs(folder, {name: job for name, job in jobs().items() if not only or name in only})


def write_jobs(folder: Path, scenarios: Mapping[str, tuple[Job | CommandJob, Events]]) -> Path:
    """Write the folder of a run of these scenarios; returns it."""
    planned: list[dict[str, Any]] = []
    results = []
    for name, (job, events) in scenarios.items():
        twin = job.twin()
        scenario = job.scenario(name=name, description=f"About {name}.", twin=f"twin-{name}")
        planned.append(scenario)
        results.append(judge(History(with_loss(events)), twin, scenario))
        write_history(folder / name, with_loss(events))
        write_history(folder / "twins" / f"twin-{name}", with_loss([dict(event) for event in twin.events]))
    plan = {"suite": "sample", "seed": 7, "version": 1, "scenarios": planned}
    report = build(
        plan,
        results,
        {
            "python": "3.11",
            "command": HOSTILE,
            "packages": {"numpy": "2"},
            "left_over": [],
            "interrupted": False,
        },
        exit_code=1,
        wall_s=12.3456,
        replay="torch-chaos replay reports/sample/plan.json",
    )
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return folder


def write_history(folder: Path, events: Sequence[Any]) -> None:
    """Write one history."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["t"]))
    (folder / "history.jsonl").write_text(text, encoding="utf-8")
