"""The faults of a GPU on a real one: `python -m tests.device.check_faults`.

Contention, memory hog, stuck kernel and device assert, each under a minute, on a device that nobody else
uses. It ends by looking whether the device is idle and its settings are as found, and writes
reports/device/faults-*.json and .md. Clocks and power are settings of the machine: they are changed, and put
back, only with --i-own-this-machine, and as root.

Exit code: 0 all proven and nothing left, 1 something was not, 3 something is left, 4 refused.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from injectors.catalogue import get
from injectors.fault import FaultError
from injectors.gpu import cuda, nvml, tenant
from injectors.gpu.clocks import is_locked
from injectors.gpu.looking import sight_of, wait_seen
from injectors.gpu.nvml import Device
from tests.benchmarks.record import environment
from tests.device import findings
from tests.device.bench import Bench, left_of
from tests.device.findings import CHECKS, ON_OWN_MACHINE, Check, Finding, Look

FOLDER = Path(__file__).parents[2] / "reports" / "device"
QUIET_S = 20.0


def look_at(device: Device) -> Look:
    """The device as it is; None for a setting that it does not have."""
    try:
        limit: int | None = device.power().limit_mw
    except FaultError:
        limit = None
    try:
        locked: bool | None = is_locked(sight_of(device))
    except FaultError:
        locked = None
    free, _ = device.memory_bytes()
    processes = tuple(process.pid for process in device.processes())
    return Look(limit, locked, free, device.utilization_percent(), processes)


def refusal(stand_in: bool) -> str | None:
    """Why nothing can be checked here; None if it can."""
    if stand_in:
        return nvml.problem() if os.environ.get(tenant.STAND_IN) else f"{tenant.STAND_IN} is not set"
    if os.environ.get(tenant.STAND_IN):
        return f"{tenant.STAND_IN} is set: a record of a real device must not go through a stand-in"
    return cuda.problem() or nvml.problem()


def entry(finding: Finding) -> dict[str, Any]:
    """A finding as the record has it."""
    check = finding.check
    return {
        "fault": check.fault,
        "params": dict(check.params),
        "problems": findings.problems(finding, get(check.fault).has_undo),
        "step_ms": findings.step_ms(finding),
        "steps": len(finding.commits),
        "longest_pause_s": findings.longest_pause_s(finding),
        "seconds": round(finding.seconds, 2),
        "exit_code": finding.exit_code,
        "fired": finding.fired,
        "verified": finding.verified,
        "undone": finding.undone,
        "undo_verified": finding.undo_verified,
        "output": finding.output,
    }


def examine(name: str, checks: tuple[Check, ...], skipped: tuple[Check, ...]) -> dict[str, Any]:
    """Run the checks one after another and look at the device before and after.

    Raises:
        FaultError: the device is not there, or somebody computes on it.
    """
    run = f"device-{secrets.token_hex(4)}"
    with nvml.session() as session:
        device = session.device(name)
        before = look_at(device)
        if before.processes:
            raise FaultError(
                f"{device} is in use by {before.processes}\n  mend: take a device that nobody uses"
            )
        done = []
        for check in checks:
            print(f"{check.fault} ...", flush=True)
            done.append(entry(Bench(check, device.uuid, run).strike()))
            print(f"  {'; '.join(done[-1]['problems']) or 'proven'} ({done[-1]['seconds']} s)", flush=True)

        def quiet(look: Look) -> bool:
            return not findings.differences(before, look)

        after = wait_seen(lambda: look_at(device), quiet, QUIET_S)
        left = findings.differences(before, after) + [f"process {pid}" for pid in left_of(run)]
        return {
            "device": {
                "name": device.name,
                "uuid": device.uuid,
                "driver": str(session.nvml.nvmlSystemGetDriverVersion()),
            },
            "stand_in": session.stand_in,
            "checks": done,
            "skipped": [check.fault for check in skipped],
            "before": asdict(before),
            "after": asdict(after),
            "left": left,
        }


def write(record: dict[str, Any], folder: Path) -> Path:
    """Write the record as JSON and Markdown; returns the latter's path."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "stand-in" if record["stand_in"] else "faults"
    stem = (
        f"{kind}-{'-'.join(record['device']['name'].split())}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
    )
    (folder / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    path = folder / f"{stem}.md"
    path.write_text(findings.to_markdown(record), encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.device.check_faults")
    parser.add_argument("--device", default="0", help="index or UUID")
    parser.add_argument("--only", action="append", metavar="FAULT", help="this fault alone; may be repeated")
    parser.add_argument("--report-dir", type=Path, default=FOLDER)
    parser.add_argument(
        "--i-own-this-machine", action="store_true", help="also change, and put back, clocks and power limit"
    )
    parser.add_argument(
        "--stand-in",
        action="store_true",
        help="try the script itself, where no device is: proves nothing else",
    )
    given = parser.parse_args(arguments)
    why = refusal(given.stand_in)
    if why is None and given.stand_in and given.report_dir == FOLDER:
        why = "a stand-in's record has no place in reports/device; give --report-dir"
    if why is not None:
        print(f"refused: {why}", file=sys.stderr)
        return 4
    all_checks = CHECKS + (ON_OWN_MACHINE if given.i_own_this_machine else ())
    checks = tuple(check for check in all_checks if not given.only or check.fault in given.only)
    if not checks:
        parser.error(f"--only: one of {', '.join(check.fault for check in all_checks)}")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        found = examine(given.device, checks, () if given.i_own_this_machine else ON_OWN_MACHINE)
    except FaultError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 4
    record = {
        "command": " ".join(["python -m tests.device.check_faults", *words]),
        "environment": environment(),
        **found,
    }
    print(write(record, given.report_dir).read_text(encoding="utf-8"))
    if record["left"]:
        return 3
    return 1 if any(check["problems"] for check in record["checks"]) else 0


if __name__ == "__main__":
    sys.exit(main())
