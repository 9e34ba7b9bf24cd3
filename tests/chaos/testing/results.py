"""Results without a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos.plan import Plan
from chaos.report.model import Report
from chaos.testing.result import Result

FAULT: dict[str, Any] = {
    "id": "f1", "name": "process.kill", "where": {"rank": 1}, "when": {"step": 5}, "rank": 1, "step": 5,
    "fired": True, "verified": True, "undone": False, "undo_verified": False, "recover_s": 0.2,
    "evidence": {},
}  # fmt: skip
RECOVERY: dict[str, Any] = {
    "cause": "crash", "rank": 1, "causes": [], "faults": ["f1"], "generation": 2, "detect_s": None,
    "fence_s": None, "regroup_s": None, "transfer_s": None, "resume_s": None, "total_s": 0.19,
    "measured_s": 0.2, "bytes": 10, "derived": False,
}  # fmt: skip


def scenario(verdict: str = "PASS", name: str = "test_x", **more: Any) -> dict[str, Any]:
    bad = verdict == "VIOLATED"
    finding = {
        "name": "replicas_agree",
        "verdict": "VIOLATED",
        "detail": "they differ",
        "count": 2,
        "first": "step 5",
    }
    return {
        "name": name, "verdict": verdict, "expected": "PASS", "as_expected": verdict == "PASS",
        "reason": "replicas_agree: they differ" if bad else "18 invariants hold", "seed": 3,
        "replay": f"torch-chaos replay p --only {name}", "wall_s": 1.0, "step_s": 0.01, "faults": [FAULT],
        "recoveries": [RECOVERY], "invariants": [finding] if bad else [], **more,
    }  # fmt: skip


def result(*scenarios: dict[str, Any], folder: Path = Path("/nowhere")) -> Result:
    found = scenarios or (scenario(),)
    surprising = any(not one["as_expected"] for one in found)
    report = Report.model_validate(
        {
            "suite": "test_x", "seed": 3, "plan_hash": "0", "exit_code": int(surprising), "wall_s": 1.0,
            "replay": "torch-chaos replay p", "scenarios": [*found], "environment": {},
            "not_fixed_by_seed": [],
            "summary": {"scenarios": {}, "unexpected": [], "recovery": {}, "step_s": None},
        }
    )  # fmt: skip
    return Result(report, Plan("test_x", 3, "/nowhere", []), folder)
