"""From judged scenarios to the report's plain data."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median

from chaos.judge import FaultOutcome, ScenarioVerdict
from chaos.records import Recovery, int_of, text_of
from chaos.report.model import Report

NOT_FIXED_BY_SEED = (
    "timing: when the operating system schedules processes, so which instruction a fault lands on",
    "process ids, port numbers, addresses",
    "how far healthy ranks are ahead of each other when a fault strikes",
)


def build(
    plan: Mapping[str, object],
    results: Sequence[ScenarioVerdict],
    environment: Mapping[str, object],
    *,
    exit_code: int,
    wall_s: float,
    replay: str,
    plan_hash: str | None = None,
    not_fixed_by_seed: Sequence[str] = NOT_FIXED_BY_SEED,
) -> dict[str, object]:
    """The content of ``report.json``; checked against the published model.

    Args:
        plan: the plan as plain data.
        results: one judged scenario each, in the plan's order.
        environment: versions, machine, command: whatever a reader needs to reproduce.
        exit_code: of the whole run, from `chaos.judge.exit_code`.
        wall_s: duration of the run in seconds.
        replay: one command that runs the same plan again.
        plan_hash: sha256 hex of the plan's canonical JSON; computed from `plan` if None.
        not_fixed_by_seed: what a second run with this seed may do differently.
    """
    raw = {
        "suite": text_of(plan, "suite") or "?",
        "seed": int_of(plan, "seed"),
        "plan_hash": plan_hash or hash_of(plan),
        "exit_code": exit_code,
        "wall_s": round(wall_s, 3),
        "replay": replay,
        "scenarios": [_scenario(result, replay) for result in results],
        "summary": _summary(results),
        "environment": plain(environment),
        "not_fixed_by_seed": list(not_fixed_by_seed),
    }
    return Report.model_validate(raw).model_dump(mode="json")


def hash_of(plan: Mapping[str, object]) -> str:
    """sha256 (hex) of the plan's canonical JSON: sorted keys, no blanks."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: object) -> object:
    """`value` as JSON can hold it: mappings, lists, text, numbers; anything else as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _scenario(result: ScenarioVerdict, replay: str) -> dict[str, object]:
    return {
        "name": result.name,
        "verdict": str(result.verdict),
        "expected": result.expected,
        "as_expected": result.as_expected,
        "reason": result.reason,
        "seed": result.seed,
        "replay": f"{replay} --only {shlex.quote(result.name)}",
        "wall_s": _rounded(result.wall_s),
        "step_s": _rounded(result.step_s),
        "faults": [_fault(fault) for fault in result.faults],
        "recoveries": [_recovery(recovery) for recovery in result.recoveries],
        "invariants": [finding.to_dict() for finding in result.findings],
    }


def _fault(fault: FaultOutcome) -> dict[str, object]:
    found = plain(asdict(fault))
    assert isinstance(found, dict)
    return {**found, "recover_s": _rounded(fault.recover_s)}


def _recovery(recovery: Recovery) -> dict[str, object]:
    durations = {
        f"{name}_s": _rounded(getattr(recovery, f"{name}_s"))
        for name in ("detect", "fence", "regroup", "transfer", "resume", "total", "measured")
    }
    return {
        "cause": recovery.cause,
        "rank": recovery.rank,
        "causes": [asdict(cause) for cause in recovery.causes],
        "faults": list(recovery.faults),
        "generation": recovery.generation,
        "bytes": recovery.bytes,
        "derived": recovery.derived,
        **durations,
    }


def _summary(results: Sequence[ScenarioVerdict]) -> dict[str, object]:
    times: dict[str, list[float]] = defaultdict(list)
    for result in results:
        names = {fault.id: fault.name for fault in result.faults}
        for recovery in result.recoveries:
            if recovery.measured_s is not None and recovery.faults:
                times["+".join(sorted(names.get(f, f) for f in recovery.faults))].append(recovery.measured_s)
    steps = [result.step_s for result in results if result.step_s is not None]
    return {
        "scenarios": dict(sorted(Counter(str(result.verdict) for result in results).items())),
        "unexpected": [result.name for result in results if not result.as_expected],
        "recovery": {
            name: {"count": len(found), "median_s": round(median(found), 6), "worst_s": round(max(found), 6)}
            for name, found in sorted(times.items())
        },
        "step_s": _rounded(median(steps)) if steps else None,
    }


def _rounded(value: float | None) -> float | None:
    """Microseconds are below what the clock of a shared machine can tell."""
    return None if value is None else round(value, 6)
