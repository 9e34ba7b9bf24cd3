"""One run with a scenario of every outcome, for the tests of the report."""

from __future__ import annotations

import re

from chaos.history import History
from chaos.judge import ScenarioVerdict, exit_code, judge
from chaos.report import build
from tests.chaos.histories import Job, changed, matching, without


def results() -> list[ScenarioVerdict]:
    healed = Job(3).steps(2).kill(1).kill(2, during=0).finish()
    broken = changed(healed.events, matching(event="step.commit", rank=2, step=1), digest="x")
    quiet = Job().steps(4)
    quiet.fault("process.stop", 1, undone=True)
    quiet.finish()
    unfired = without(quiet.events, lambda e: e["event"].startswith("fault.") and e["event"] != "fault.armed")
    failed = Job().finish(1, "the script raised [ValueError] at import")

    def judged(name: str, job: Job, events: list[dict[str, object]], **more: object) -> ScenarioVerdict:
        return judge(History(events), job.twin(), job.scenario(name=name, **more))

    twice = {"verdict": "VIOLATED", "invariant": "state_equals_twin", "also": ["replicas_agree"]}
    return [
        judged("kill_in_backward", healed, healed.events),
        judged("stale_state", healed, broken),
        judged("control_stale_state", healed, broken, expect=twice),
        judged("control_missed", healed, healed.events, expect=twice),
        judged("never_fires", quiet, unfired),
        judged("raises_at_import", failed, failed.events),
    ]


def report() -> dict[str, object]:
    found = results()
    return build(
        {"suite": "sample", "seed": 7, "scenarios": []},
        found,
        {"python": "3.11", "torch": "2.13"},
        exit_code=exit_code(found),
        wall_s=12.3456,
        replay="torch-chaos replay reports/sample/plan.json",
    )


def masked(text: str) -> str:
    """Without figures that a shared machine would change: pids and durations."""
    text = re.sub(r"pid \d+", "pid N", text)
    text = re.sub(r'time="[\d.]+"', 'time="T"', text)
    return re.sub(r"\b\d+(\.\d+)? (ms|s)\b", r"T \2", text)
