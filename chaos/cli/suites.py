"""`validate` and `schema`: what a suite file may say, and whether one does.

Nothing here can run a suite, so a check of files costs no import of what runs them.
"""

from __future__ import annotations

import json
import sys
from typing import Literal

from chaos.errors import UserError
from chaos.suite import SuiteError, load
from injectors.catalogue import CATALOGUE


def validate(names: list[str]) -> None:
    """Check every suite before saying anything is wrong with the first.

    Raises:
        UserError: with the problems of all of them.
    """
    wrong: list[UserError] = []
    for name in names:
        try:
            loaded = load(name, CATALOGUE)
        except UserError as error:
            wrong.append(error)
            continue
        print(f"{loaded.file}: {len(loaded.suite.scenarios)} scenarios, no problem")
    if wrong:
        count = sum(len(error.problems) if isinstance(error, SuiteError) else 1 for error in wrong)
        print(*wrong, sep="\n", file=sys.stderr)
        raise UserError(f"{count} problems")


def schema(what: Literal["suite", "report"]) -> None:
    """Print a JSON Schema."""
    if what == "report":
        from chaos import report as reports

        print(json.dumps(reports.schema(), indent=2))
    else:
        from chaos.suite.model import json_schema

        print(json.dumps(json_schema(), indent=2))
