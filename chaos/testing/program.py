"""From a function of a test file to a script for every rank. Nothing is pickled: the function is named."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from chaos.errors import UserError
from chaos.testing.calling import TRAINING

SCRIPT = "program.py"

_TEXT = """\
# Calls the training function {qualname} of {file} on every rank.
# Written by torch-chaos for one test.
import json
import sys

sys.path += [entry for entry in json.loads({path!r}) if entry not in sys.path]

from chaos.testing.calling import call

call({file!r}, {module!r}, {qualname!r}, json.loads({kwargs!r}))
"""


@dataclass(frozen=True)
class Function:
    """A training function by name: the file, the module that it is in, and what it is called there."""

    file: str
    module: str
    qualname: str
    takes_steps: bool
    default_steps: int | None

    @classmethod
    def of(cls, function: Callable[..., object]) -> Function:
        """Name a function.

        Raises:
            UserError: it has no name that another process could find it by.
        """
        function = getattr(function, TRAINING, function)
        qualname = getattr(function, "__qualname__", "")
        module = getattr(function, "__module__", "")
        if not inspect.isfunction(function) or "<" in qualname or module == "__main__":
            raise UserError(
                f"{function!r} cannot be found by its name in another process",
                "define it with `def` at the top level of the test file or of a module",
            )
        parameter = inspect.signature(function).parameters.get("steps")
        default = None if parameter is None else parameter.default
        return cls(
            str(Path(function.__code__.co_filename).resolve()),
            module,
            qualname,
            parameter is not None,
            default if isinstance(default, int) else None,
        )

    def steps(self, wanted: int | None) -> int | None:
        """How many steps a run of it commits, as far as is known.

        Raises:
            UserError: neither the test nor the function says.
        """
        steps = wanted if wanted is not None else self.default_steps
        if steps is None and not self.takes_steps:
            raise UserError(
                f"{self.qualname}: how many steps does it commit?",
                "say `steps=N`, or give the function a parameter `steps`",
            )
        return steps

    def sources(self, project: Path) -> list[str]:
        """Its file, and what that imports of the project: a change of any of it makes another twin.

        Args:
            project: the folder that is the user's own.
        """
        found = {self.file}
        waiting = [self.module]
        while waiting:
            module = sys.modules.get(waiting.pop())
            for name in _names_in(module):
                file = str(getattr(sys.modules.get(name), "__file__", None))
                if file not in found and _is_own(Path(file), project):
                    found.add(file)
                    waiting.append(name)
        return sorted(found)

    def script(self, args: Mapping[str, Any]) -> str:
        """The script's text.

        Raises:
            UserError: an argument that JSON cannot hold.
        """
        try:
            kwargs = json.dumps(dict(args), sort_keys=True)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{self.qualname}: its arguments go to other processes as JSON: {error}",
                "pass numbers, text, lists and mappings, and make everything else in the function",
            ) from None
        path = json.dumps([entry for entry in sys.path if entry])
        return _TEXT.format(
            qualname=self.qualname, file=self.file, module=self.module, path=path, kwargs=kwargs
        )


def _names_in(module: ModuleType | None) -> set[str]:
    """The modules that a module has imported, or imported something from."""
    values = [*vars(module).values()] if module is not None else []
    named = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in values
    }
    return {name for name in named if isinstance(name, str)}


def _is_own(file: Path, project: Path) -> bool:
    """Whether a file is the user's: neither installed nor ours."""
    if file.suffix != ".py" or not file.is_relative_to(project) or "site-packages" in file.parts:
        return False
    ours = Path(__file__).parents[2]
    return not any(file.is_relative_to(ours / name) for name in ("chaos", "injectors", "recovery", "suites"))
