"""What the device script found, judged and written down. Pure: no device, no process, no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

LIMIT_S = 60.0
SLACK_BYTES = 64 << 20
"""Free memory may differ by this much without anyone holding it: the driver keeps some."""


@dataclass(frozen=True)
class Check:
    """One fault to bring about on the device.

    Attributes:
        hold_s: how long it is left in force after it was verified.
        ends_victim: whether the victim is meant to fail of it.
    """

    fault: str
    params: Mapping[str, Any]
    hold_s: float = 0.0
    ends_victim: bool = False


CHECKS = (
    Check("gpu.contend", {"share": 0.5, "duration_s": 50.0}, hold_s=5.0),
    Check("gpu.mem_hog", {"share": 0.5, "duration_s": 50.0}, hold_s=2.0),
    Check("gpu.stuck_kernel", {"duration_s": 20.0}, hold_s=3.0),
    Check("gpu.device_assert", {}, ends_victim=True),
)
ON_OWN_MACHINE = (
    Check("gpu.clock_lock", {"share": 0.5, "duration_s": 30.0}, hold_s=5.0),
    Check("gpu.power_cap", {"share": 0.0, "duration_s": 30.0}, hold_s=5.0),
)


@dataclass
class Finding:
    """What came of one check. Evidence is as `Evidence.as_dict` has it, None where it never came to that."""

    check: Check
    fired: Mapping[str, Any] | None = None
    verified: Mapping[str, Any] | None = None
    undone: Mapping[str, Any] | None = None
    undo_verified: Mapping[str, Any] | None = None
    exit_code: int | None = None
    seconds: float = 0.0
    moments: dict[str, float] = field(default_factory=dict)
    """reached, verified, undone: monotonic seconds."""
    commits: list[float] = field(default_factory=list)
    """When the victim completed its steps, monotonic seconds."""
    output: str = ""


@dataclass(frozen=True)
class Look:
    """The device at one moment."""

    power_limit_mw: int | None
    locked: bool | None
    free_bytes: int
    utilization_percent: int
    processes: tuple[int, ...]


def problems(finding: Finding, has_undo: bool) -> list[str]:
    """Everything wrong with a finding; [] if the fault was proven and taken back."""
    wanted = ["fired", "verified"] + (["undone", "undo_verified"] if has_undo else [])
    found = []
    for stage in wanted:
        evidence = getattr(finding, stage)
        if evidence is None:
            found.append(f"it was never {stage}")
        elif not evidence["proven"]:
            found.append(f"not {stage}: {evidence['what']}")
    failed = finding.exit_code != 0
    if failed != finding.check.ends_victim:
        meant = "fail" if finding.check.ends_victim else "go on"
        found.append(f"the victim was to {meant}, its exit code is {finding.exit_code}")
    if finding.seconds > LIMIT_S:
        found.append(f"it took {finding.seconds:.0f} s, more than {LIMIT_S:.0f}")
    if finding.check.fault == "gpu.stuck_kernel" and (longest_pause_s(finding) or 0.0) < finding.check.hold_s:
        found.append("the victim's steps went on while its stream was held")
    return found


def longest_pause_s(finding: Finding) -> float | None:
    """The longest time between two steps, seconds; None with fewer than two."""
    times = finding.commits
    return max((b - a for a, b in pairwise(times)), default=None)


def step_ms(finding: Finding) -> dict[str, float | None]:
    """The median step before, during and after the fault, milliseconds; None where there is none."""
    moments = finding.moments
    edges = {
        "before": (0.0, moments.get("reached", 0.0)),
        "during": (moments.get("verified", 0.0), moments.get("undone", 0.0)),
        "after": (moments.get("undone", float("inf")), float("inf")),
    }
    return {name: _median_ms(finding.commits, low, high) for name, (low, high) in edges.items()}


def _median_ms(times: Sequence[float], low: float, high: float) -> float | None:
    inside = [time for time in times if low <= time <= high]
    gaps = [(b - a) * 1000 for a, b in pairwise(inside)]
    return round(median(gaps), 2) if gaps else None


def differences(before: Look, after: Look) -> list[str]:
    """What is not as it was found; [] if the device is idle again and its settings are as before."""
    found = []
    if after.power_limit_mw != before.power_limit_mw:
        found.append(f"power limit: {before.power_limit_mw} mW before, {after.power_limit_mw} mW now")
    if after.locked != before.locked:
        found.append(f"clock lock: {before.locked} before, {after.locked} now")
    if after.processes:
        found.append(f"processes on the device: {', '.join(map(str, after.processes))}")
    if after.free_bytes < before.free_bytes - SLACK_BYTES:
        found.append(f"free memory: {before.free_bytes} bytes before, {after.free_bytes} now")
    return found


def to_markdown(record: Mapping[str, Any]) -> str:
    """The record for people."""
    machine = record["environment"]
    lines = [
        f"# GPU faults on {record['device']['name']}" + (" (STAND-IN)" if record["stand_in"] else ""),
        "",
        f"Made by `{record['command']}`, commit {machine['commit'][:12]}"
        + (" with uncommitted changes" if machine["uncommitted_changes"] else "")
        + f", driver {record['device']['driver']}, torch {machine['torch']}.",
        "",
    ]
    if record["stand_in"]:
        lines += ["Every device in this record is a stand-in. It shows that the script runs, no more.", ""]
    lines += [
        "| fault | result | step before / during / after | evidence |",
        "|---|---|---|---|",
    ]
    for check in record["checks"]:
        steps = " / ".join("-" if ms is None else f"{ms:g} ms" for ms in check["step_ms"].values())
        evidence = check["verified"] or check["fired"] or {"what": "none"}
        result = "proven" if not check["problems"] else "; ".join(check["problems"])
        lines.append(f"| `{check['fault']}` | {_cell(result)} | {steps} | {_cell(evidence['what'])} |")
    left = record["left"]
    lines += ["", "At the end: " + ("; ".join(left) if left else "idle, settings as found") + "."]
    if record["skipped"]:
        lines += ["", f"Not run, for they change settings of the machine: {', '.join(record['skipped'])}."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
