"""Target `custom`: a recovery system of the user's own, from one file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from chaos.errors import UserError
from chaos.targets.base import Setting, Target


def load(setting: Setting) -> Target:
    """The target that the file in `spec["file"]` defines: its class `Target`.

    Raises:
        UserError: there is no such file, it raises, or it defines no such class.
    """
    path = setting.folder / setting.spec["file"]
    if not path.is_file():
        raise UserError(f"there is no target file {path}", "check `file:`; it starts at the suite's folder")
    # A private name: the user's file may be called anything, also like a module of ours.
    name = f"_torch_chaos_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(f"{path}: raises when it is imported: {error!r}", "mend the file") from error
    found = getattr(module, "Target", None)
    if not (isinstance(found, type) and issubclass(found, Target) and found is not Target):
        raise UserError(
            f"{path}: defines no class `Target` that is a chaos.targets.Target",
            "write `class Target(chaos.targets.Target):`; chaos/targets/base.py says what is asked of it",
        )
    return found(setting)


def file_of(setting: Setting) -> Path:
    """The file that defines the target."""
    return setting.folder / str(setting.spec["file"])
