"""Suite files: found by name or path, checked, and complete once they leave here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.suite.find import find, read, shipped
from chaos.suite.load import Loaded, SuiteError, load_text


def load(name_or_path: str, catalogue: Mapping[str, Any]) -> Loaded:
    """Find, read and check a suite.

    Raises:
        UserError: it cannot be found or read.
        SuiteError: it has problems; the error holds all of them.
    """
    path = find(name_or_path)
    return load_text(read(path), str(path), catalogue)


__all__ = ["Loaded", "SuiteError", "find", "load", "load_text", "read", "shipped"]
