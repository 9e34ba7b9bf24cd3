"""Where suites are: shipped ones by name, any other by path."""

from __future__ import annotations

import difflib
from importlib import resources
from pathlib import Path

from chaos.errors import UserError


def shipped() -> dict[str, Path]:
    """The suites that come with the package, by name."""
    folder = Path(str(resources.files("suites")))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(name_or_path: str) -> Path:
    """The file of a suite.

    Raises:
        UserError: there is no such file and no shipped suite of that name, or it is a folder.
    """
    path = Path(name_or_path)
    looks_like_path = path.suffix in (".yaml", ".yml") or "/" in name_or_path
    known = shipped()
    if not looks_like_path and name_or_path in known:
        return known[name_or_path]
    if path.is_dir():
        raise UserError(f"{name_or_path} is a folder, not a suite", "name a .yaml file in it")
    if path.is_file():
        return path
    if looks_like_path:
        raise UserError(
            f"there is no file {name_or_path}", "check the path; it is relative to the current folder"
        )
    close = difflib.get_close_matches(name_or_path, list(known), n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise UserError(f"there is no suite {name_or_path!r}", f"{hint}shipped: {', '.join(known) or 'none'}")


def read(path: Path) -> str:
    """A suite file's text.

    Raises:
        UserError: it cannot be read or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text (byte {error.start})", "save the file as UTF-8") from None
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read: {error.strerror}", "check the path and its permissions"
        ) from None
