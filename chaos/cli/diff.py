"""`diff`, and the comparison with a baseline that ends a `run`."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from chaos.cli import times
from chaos.compare import text
from chaos.compare.compare import Comparison, Limits, compare
from chaos.compare.read import reports_at
from chaos.errors import Exit, UserError
from chaos.report.model import Report
from chaos.runner.view import Format
from chaos.suite import durations


@dataclass(frozen=True)
class Wanted:
    """When a difference counts, as given on the command line."""

    slower_than: float = Limits.slower_than
    alpha: float = Limits.alpha
    floor: str = durations.spelled(Limits.floor_s)

    def limits(self) -> Limits:
        """The limits, checked.

        Raises:
            UserError: one of them makes no sense.
        """
        if self.slower_than <= 1.0:
            raise UserError(f"--slower-than {self.slower_than:g}: not above 1", "write a ratio, as 1.5")
        if not 0.0 < self.alpha < 1.0:
            raise UserError(f"--alpha {self.alpha:g}: not between 0 and 1", "write a probability, as 0.01")
        floor_s = times.seconds("--floor", self.floor, "10ms")
        if floor_s <= 0.0:
            raise UserError("--floor 0: a ratio to nothing cannot be told", "write at least 1ms")
        return Limits(slower_than=self.slower_than, alpha=self.alpha, floor_s=floor_s)


def diff(before: Path, after: Path, wanted: Wanted, everything: bool, form: Format) -> int:
    """Compare two runs, or two folders of runs; returns the exit code.

    Raises:
        UserError: there is no report at one of the two.
    """
    old, new = ([one.report for one in reports_at(path)] for path in (before, after))
    found = compare(old, new, wanted.limits())
    show(found, everything, form)
    return code_of(found)


def against(
    baseline: list[Report], found: list[dict[str, object]], limits: Limits, form: Format
) -> Comparison:
    """Compare what was just run with a baseline, and print it."""
    done = compare(baseline, [Report.model_validate(one) for one in found], limits)
    # Where a program reads the report from stdout, the comparison goes with the lines for people.
    _print(text.lines_of(done), form, stderr=form == "json")
    return done


def show(found: Comparison, everything: bool, form: Format) -> None:
    """Print a comparison."""
    if form == "json":
        sys.stdout.write(json.dumps(text.data_of(found), indent=2, ensure_ascii=False) + "\n")
        return
    _print(text.lines_of(found, everything=everything), form)


def _print(lines: list[str], form: Format, *, stderr: bool = False) -> None:
    console = Console(stderr=stderr, no_color=form != "rich" or None, highlight=False)
    for line in lines:
        style = "bold red" if line.startswith(("REGRESSED", "WORSE")) or line.endswith("  slower") else None
        console.print(line, soft_wrap=True, markup=False, style=style)


def code_of(found: Comparison) -> int:
    """1 if anything became worse; 2 if that cannot be told; 0 if nothing did."""
    if found.regressed:
        return int(Exit.VIOLATED)
    return int(Exit.PASSED if found.verdicts and found.tells else Exit.INCONCLUSIVE)
