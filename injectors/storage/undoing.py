"""What the undo records of this family mean. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from injectors import lasting
from injectors.storage import keeping, mounts
from injectors.undo import Handler


def _put_back(record: Mapping[str, Any]) -> tuple[bool, str]:
    return keeping.put_back(Path(record["data"]["kept"]))


def _unmount(record: Mapping[str, Any]) -> tuple[bool, str]:
    data = record["data"]
    return mounts.end(str(data["tag"]), int(record["pid"]), str(data["mount"]))


HANDLERS: Mapping[str, Handler] = {
    "storage.kept": _put_back,
    "storage.lasting": lasting.released,
    "storage.fuse": _unmount,
}
