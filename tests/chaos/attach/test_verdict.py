"""What is judged of a session: its own evidence, and nothing that only the job could tell."""

from __future__ import annotations

from typing import Any

from chaos.history import History
from chaos.invariants.finding import Verdict
from chaos.judge import ScenarioVerdict, judge
from tests.chaos.attach.test_faults import planned, words

SCENARIO = planned(words("process.stop", rank="1", for_="1s")).scenarios[0].to_dict()
STAGES = ("armed", "reached", "fired", "verified", "undone", "undo_verified")
CLEAN: dict[str, list[str]] = {"processes": [], "shm": [], "sockets": [], "files": []}


def judged(*stages: str, left: list[str] | None = None) -> ScenarioVerdict:
    events: list[dict[str, Any]] = [{"event": "target.start", "kind": "attached", "pid": 10}]
    events += [{"event": "worker.start", "rank": n, "pid": 11 + n, "start_ticks": 1} for n in range(2)]
    events += [
        {"event": f"fault.{stage}", "fault": "f1", "name": "process.stop", "rank": 1, "pid": 12}
        for stage in stages
    ]
    events += [{"event": "leak.check", **CLEAN, "processes": left or []}]
    lines = [{"t": float(n), "source": "engine", **event} for n, event in enumerate(events)]
    return judge(History(lines), None, SCENARIO)


def test_a_fault_with_all_its_evidence_passes_and_the_job_is_not_judged() -> None:
    verdict = judged(*STAGES)
    assert (verdict.verdict, verdict.as_expected) == (Verdict.PASS, True)
    found = {finding.name: finding for finding in verdict.findings}
    held = [name for name, finding in found.items() if finding.verdict == Verdict.PASS]
    assert held == ["nothing_left_over", "faults_took_effect"]
    assert {finding.verdict for name, finding in found.items() if name not in held} == {
        Verdict.NOT_APPLICABLE
    }
    assert found["state_equals_twin"].detail == "a job that is attached to tells nothing of itself"


def test_a_fault_without_proof_or_undo_is_inconclusive() -> None:
    assert judged("armed").reason == (
        "faults_took_effect: fault f1 (process.stop) did not fire: its trigger never came"
    )
    for last in ("reached", "fired", "verified", "undone"):
        verdict = judged(*STAGES[: STAGES.index(last) + 1])
        assert verdict.verdict == Verdict.INCONCLUSIVE, last


def test_what_is_left_of_the_tool_is_a_violation() -> None:
    assert judged(*STAGES, left=["pid 9"]).verdict == Verdict.VIOLATED
