"""Paths and placeholders of a target: relative ones start at the suite's folder."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from chaos.errors import UserError

SHIPPED = "package:suites"


def folder_of(recorded: str) -> Path:
    """The folder that a plan's `folder` stands for on this machine."""
    return shipped_folder() if recorded == SHIPPED else Path(recorded)


def recorded_folder(suite_file: Path) -> str:
    """How a plan names a suite's folder: shipped suites must give one plan on every machine."""
    folder = suite_file.resolve().parent
    return SHIPPED if folder == shipped_folder().resolve() else str(folder)


def shipped_folder() -> Path:
    """The folder of the suites that come with the package."""
    return Path(str(resources.files("suites")))


def workload(name: str, folder: Path) -> Path:
    """The script of a workload: a shipped one's name, or a path.

    Raises:
        UserError: there is no such file.
    """
    shipped = shipped_folder() / "workloads" / f"{name}.py"
    if shipped.is_file():
        return shipped
    path = folder / name
    if path.is_file():
        return path
    known = sorted(p.stem for p in shipped.parent.glob("*.py") if not p.stem.startswith("_"))
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UserError(
        f"there is no workload {name!r} (looked for {path})",
        f"{hint}name a script, or one of {', '.join(known)}",
    )


def is_shipped(name: str) -> bool:
    """Whether a workload is one that comes with the package."""
    return (shipped_folder() / "workloads" / f"{name}.py").is_file()


def replaced(text: str, words: Mapping[str, object]) -> str:
    """A text with `{name}` replaced by its value; other braces stay as they are."""
    for name, value in words.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def filled(text: str, folder: Path, work: Path) -> str:
    """A text with `{suite}`, `{python}` and `{work}` filled in; other braces stay as they are."""
    return replaced(text, {"suite": folder, "python": sys.executable, "work": work})


def command(argv: list[str], folder: Path, work: Path) -> list[str]:
    """A command line as it is executed: placeholders filled, files of the suite's folder found.

    A word that names a file in the suite's folder (and none in the current one) is replaced by its path, so
    that a suite works from any folder. The program is looked up beside this interpreter first: `torchrun` is
    then the one of the environment that torch-chaos runs in.
    """
    words = [filled(word, folder, work) for word in argv]
    out = [_program(words[0], folder)]
    for word in words[1:]:
        local = folder / word
        own = bool(word) and not word.startswith("-") and not Path(word).exists() and local.is_file()
        out.append(str(local) if own else word)
    return out


def _program(name: str, folder: Path) -> str:
    if os.sep in name:
        return name if Path(name).is_absolute() or Path(name).exists() else str(folder / name)
    beside = Path(sys.executable).parent / name
    if beside.is_file() and os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which(name) or name


def environment(extra: Mapping[str, str], folder: Path, work: Path) -> dict[str, str]:
    """A target's `env` with placeholders filled in."""
    return {key: filled(value, folder, work) for key, value in extra.items()}
