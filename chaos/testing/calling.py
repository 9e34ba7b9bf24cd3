"""Inside a rank: find a test file's training function and call it.

The function is named, not sent: the file is imported anew in every process. Standard library only.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

TRAINING = "torch_chaos_training"
"""The attribute under which a decorated test keeps the training function that it was made from."""


def call(file: str, module: str, qualname: str, kwargs: Mapping[str, Any]) -> None:
    """Import the file as the module that it was in the test run, and call its function.

    Raises:
        AttributeError: the file has no such function any more.
    """
    found: Any = load(file, module)
    for name in qualname.split("."):
        found = getattr(found, name)
    getattr(found, TRAINING, found)(**kwargs)


def load(file: str, name: str) -> ModuleType:
    """The module `name`, from `file`: by its name where that leads there, so that relative imports work."""
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == file:
        return sys.modules[name]
    if _leads_to(name, file):
        return importlib.import_module(name)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _leads_to(name: str, file: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return (
        spec is not None
        and spec.origin is not None
        and os.path.realpath(spec.origin) == os.path.realpath(file)
    )
