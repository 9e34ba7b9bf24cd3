"""Our scenarios as specs of the public package `ai-cluster-chaos-fidelity`.

Its format asks which *technique* of a fixed list an experiment uses, and its linter refuses a technique that
does not reach the layer of the fault that is wanted. Rules kept here:

- A fault maps to a technique only if it does the same thing to the same layer. Where it resembles the
  technique without being it, the spec's notes say in what it differs.
- What has no honest counterpart is not written; the reason is, beside the specs.
- A spec has one injection. A scenario whose faults need two techniques is not one experiment.
- Scenarios that test the tool itself (seeded bugs, faults aimed at nothing) certify nothing of a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.export.techniques import TECHNIQUES, UNMAPPED, Match
from chaos.report.stored import HISTORY
from chaos.suite.durations import spelled
from chaos.suite.model import FaultEntry, Scenario
from injectors.fault import Fault

DURATION_S = 60.0


@dataclass
class Exported:
    """What became of one suite: specs by scenario, and the reasons for those left out."""

    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def export(
    suite: str, scenarios: Iterable[Scenario], catalogue: Mapping[str, type[Fault]], owner: str
) -> Exported:
    """The specs of one suite's scenarios.

    Args:
        suite: its name.
        scenarios: its scenarios.
        catalogue: fault classes by id.
        owner: who answers for the experiment; the format refuses a spec without one.
    """
    out = Exported()
    for scenario in scenarios:
        found = _matched(scenario)
        if isinstance(found, str):
            out.left_out[scenario.name] = found
        else:
            out.specs[scenario.name] = _spec(suite, scenario, found, catalogue, owner)
    return out


def _matched(scenario: Scenario) -> Match | str:
    """The one match of all the scenario's faults, or why there is none."""
    if not scenario.faults:
        return "it injects no fault"
    if scenario.expect.verdict != "PASS":
        return f"it expects {scenario.expect.verdict}: it tests the tool, not a job"
    names = list(dict.fromkeys(entry.fault for entry in scenario.faults))
    missing = [
        f"{name}: {UNMAPPED.get(name, 'no technique is mapped')}" for name in names if name not in TECHNIQUES
    ]
    if missing:
        return "; ".join(missing)
    matches = [TECHNIQUES[name] for name in names]
    if len({match.technique for match in matches}) > 1:
        return "its faults use several techniques, and a spec has one: " + ", ".join(
            sorted({match.technique for match in matches})
        )
    return matches[0]


def _spec(
    suite: str, scenario: Scenario, match: Match, catalogue: Mapping[str, type[Fault]], owner: str
) -> dict[str, Any]:
    kinds = [catalogue[name] for name in dict.fromkeys(entry.fault for entry in scenario.faults)]
    run = scenario.bounds.run
    spec: dict[str, Any] = {
        "name": f"torch-chaos-{suite}-{scenario.name}".replace("_", "-"),
        "layer": match.layer,
        "wanted_fault": match.wanted,
        "injection": {
            "tool": f"torch-chaos run {suite} --only {scenario.name}",
            "technique": match.technique,
            "detail": "; ".join(_told(entry) for entry in scenario.faults),
        },
        "blast_radius": f"one job that torch-chaos starts itself: {_aimed(scenario)}",
        "duration": spelled(DURATION_S if run is None else run),
        "steady_state": [
            "every step is committed once, with the state that a run without faults has at that step",
            "the job makes progress again within its bound after the fault is taken back",
            "nothing of the job or of the fault is left on the machine",
        ],
        "abort": "the scenario's time is up, an invariant is violated, or the user interrupts",
        "undo": _undo(kinds),
        "owner": owner,
        "evidence": f"report.json and {scenario.name}/{HISTORY}: fired, verified, undone, undo_verified",
        "hardware_required": any("gpu" in kind.needs for kind in kinds),
        "certifies": f"recovery of the training state, bit by bit; not {kinds[0].does_not_certify}",
        "notes": _notes(kinds),
    }
    if match.physical:
        spec["agent_forbidden"] = True
    return spec


def _told(entry: FaultEntry) -> str:
    where = ", ".join(f"{key} {value}" for key, value in entry.where.model_dump(exclude_none=True).items())
    when = ", ".join(
        f"{key} {_flat(value)}" for key, value in entry.when.model_dump(exclude_none=True).items()
    )
    lasting = "" if entry.for_ is None else f", for {spelled(entry.for_)}"
    times = "" if entry.repeat is None else f", {entry.repeat.count} times"
    return f"{entry.fault} on {where} at {when}{lasting}{times}"


def _flat(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key} {item}" for key, item in value.items())
    return str(value)


def _aimed(scenario: Scenario) -> str:
    found = dict.fromkeys(
        f"{key} {value}"
        for entry in scenario.faults
        for key, value in entry.where.model_dump(exclude_none=True).items()
    )
    return ", ".join(found)


def _undo(kinds: list[type[Fault]]) -> str:
    if any(kind.has_undo for kind in kinds):
        return "written ahead to a journal; done by torch-chaos, by its reaper, or by `torch-chaos rollback`"
    return "the fault ends with its act; `torch-chaos rollback` confirms that nothing is left"


def _notes(kinds: list[type[Fault]]) -> str:
    told = []
    for kind in kinds:
        match = TECHNIQUES[kind.id]
        how = "is this technique" if match.exact else f"resembles this technique: {match.differs}"
        told.append(f"{kind.id} {how}")
    return "; ".join(told)
