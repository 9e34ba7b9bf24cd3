"""What `run` and `replay` tell a CI system beside the report: nothing unless one is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.errors import UserError
from chaos.report.github import Place, commands, summary
from chaos.report.junit import Inconclusive
from chaos.report.model import Report
from chaos.suite import find, read
from chaos.suite.tree import read_tree


def tell_github(
    reports: Sequence[dict[str, object]],
    suites: Sequence[str],
    inconclusive: Inconclusive,
    comparison: Sequence[str],
    *,
    to_stderr: bool,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """On GitHub Actions: print annotations, and append to the job's summary.

    Args:
        suites: names or paths, one for each report; none where a stored plan was run.
        comparison: lines of the comparison with a baseline, if there was one.
        to_stderr: stdout belongs to the report.

    Raises:
        UserError: the summary's file cannot be written.
    """
    if environment.get("GITHUB_ACTIONS") != "true":
        return
    root = Path(environment.get("GITHUB_WORKSPACE") or ".").resolve()
    checked = [Report.model_validate(report) for report in reports]
    for number, report in enumerate(checked):
        places = places_in(find(suites[number]), root) if suites else {}
        for line in commands(report, places, inconclusive):
            print(line, file=sys.stderr if to_stderr else sys.stdout, flush=True)
    if path := environment.get("GITHUB_STEP_SUMMARY"):
        text = "\n".join(summary(report, comparison if report is checked[-1] else ()) for report in checked)
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UserError(
                f"{path}: cannot be written: {error.strerror}", "check GITHUB_STEP_SUMMARY, or unset it"
            ) from None


def places_in(file: Path, root: Path) -> dict[str, Place]:
    """Where each scenario of a suite file stands; none for a file outside the repository."""
    if not file.resolve().is_relative_to(root):
        return {}
    name = str(file.resolve().relative_to(root))
    tree = read_tree(read(file))
    scenarios = tree.data["scenarios"] if isinstance(tree.data, dict) else []
    return {
        scenario["name"]: Place(name, tree.line(("scenarios", index, "name")))
        for index, scenario in enumerate(scenarios)
    }
