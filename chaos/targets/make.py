"""From a plan's target to the object that runs it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.plan import canonical
from chaos.targets import custom
from chaos.targets.attached import AttachedTarget
from chaos.targets.base import Setting, Target
from chaos.targets.command import CommandTarget
from chaos.targets.recovery import RecoveryTarget, Template


def make_target(setting: Setting, template: Template) -> Target:
    """The target of a scenario.

    Args:
        setting: what it is made for.
        template: the run's template process, used by targets of kind `recovery`.

    Raises:
        UserError: a custom target's file cannot be used.
    """
    match setting.spec["kind"]:
        case "recovery":
            return RecoveryTarget(setting, template)
        case "command":
            return CommandTarget(setting)
        case "custom":
            return custom.load(setting)
        case "attached":
            return AttachedTarget(setting)
        case other:
            raise AssertionError(f"no target of kind {other!r}; the suite's models allow no such thing")


def sources_of(targets: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    """Content hash of each target's files, by the target's canonical JSON.

    Raises:
        UserError: a script is not there.
    """
    found: dict[str, str] = {}
    hashes: dict[Path, str] = {}
    for spec in targets:
        key = canonical(spec)
        if key in found or not _runs(spec):
            continue
        target = make_target(Setting(spec, folder), Template({}))
        target.check()
        files = target.files()
        if spec["kind"] == "custom":
            files = [custom.file_of(target.setting), *files]
        found[key] = hashlib.sha256("".join(_hash(path, hashes) for path in files).encode()).hexdigest()
    return found


def _runs(spec: Mapping[str, Any]) -> bool:
    # An empty target is refused by the plan, with a message of its own.
    return bool(spec.get("world")) and spec.get("steps") != 0 and bool(spec.get("argv", True))


def _hash(path: Path, known: dict[Path, str]) -> str:
    if path not in known:
        known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
    return known[path]
