"""What the undo records of this family mean. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from injectors import lasting
from injectors.host import cgroup, duty
from injectors.undo import Handler


def _leave_group(record: Mapping[str, Any]) -> tuple[bool, str]:
    data = record["data"]
    return cgroup.remove(Path(data["group"]), Path(data["former"]))


def _end_duty(record: Mapping[str, Any]) -> tuple[bool, str]:
    return duty.end(duty.record_tag(record), int(record["pid"]), int(record["start_ticks"]))


HANDLERS: Mapping[str, Handler] = {
    "host.cgroup": _leave_group,
    "host.duty": _end_duty,
    "host.lasting": lasting.released,
}
