"""`doctor`: what this machine can do, and which way each fault would go here. Tried, not guessed."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from chaos.cli.machine import PROBES, Finding
from chaos.errors import Exit, one_line
from injectors.catalogue import CATALOGUE
from injectors.fault import Fault

WIDTH = 110


@dataclass(frozen=True)
class Rung:
    """One mechanism of a fault, tried here. `missing`: None where it works."""

    name: str
    fidelity: str
    missing: str | None


@dataclass(frozen=True)
class Ladder:
    """The mechanisms of one fault, best first."""

    fault: str
    rungs: tuple[Rung, ...]

    @property
    def taken(self) -> Rung | None:
        """The one that would be used here; None where none works."""
        return next((rung for rung in self.rungs if rung.missing is None), None)

    def as_dict(self) -> dict[str, Any]:
        """JSON only."""
        taken = self.taken
        return {
            "id": self.fault,
            "mechanism": None if taken is None else taken.name,
            "fidelity": None if taken is None else taken.fidelity,
            "ladder": [asdict(rung) for rung in self.rungs],
        }


class Tried:
    """Runs each probe once, however many faults share it."""

    def __init__(self) -> None:
        self._known: dict[Callable[[], str | None], str | None] = {}

    def __call__(self, probe: Callable[[], str | None]) -> str | None:
        """What is missing; None where it works. A probe that breaks has not shown that anything works."""
        if probe not in self._known:
            try:
                self._known[probe] = probe()
            except Exception as error:
                self._known[probe] = f"its probe failed: {error!r}"
        return self._known[probe]


def ladders(catalogue: Mapping[str, type[Fault]] = CATALOGUE) -> list[Ladder]:
    """Every mechanism of every fault, tried here. Changes nothing."""
    tried = Tried()
    return [
        Ladder(name, tuple(Rung(way.name, way.fidelity, tried(way.probe)) for way in fault.mechanisms))
        for name, fault in catalogue.items()
    ]


def doctor(as_json: bool = False) -> int:
    """Print every probe; returns 0, or 4 if something is missing that every run needs."""
    # The probes of the machine wait for other processes most of the time, one of them for torch's import.
    with ThreadPoolExecutor(len(PROBES)) as pool:
        findings = list(pool.map(lambda probe: probe(), PROBES))
    faults = ladders()
    missing = [finding.name for finding in findings if finding.needed and not finding.works]
    if as_json:
        shown = {
            "machine": [asdict(finding) for finding in findings],
            "faults": [ladder.as_dict() for ladder in faults],
            "can_run": not missing,
        }
        print(json.dumps(shown, indent=2))
    else:
        print("\n".join([*_machine_lines(findings), "", *_fault_lines(faults)]))
        if missing:
            print(f"\nno run is possible without: {', '.join(missing)}")
    return int(Exit.REFUSED if missing else Exit.PASSED)


def _machine_lines(findings: list[Finding]) -> list[str]:
    width = max(len(finding.name) for finding in findings)
    return [f"{finding.mark} {finding.name.ljust(width)}  {finding.detail}" for finding in findings]


def _fault_lines(faults: list[Ladder]) -> list[str]:
    """One line for each fault; below it what stands in the way of a better mechanism.

    A reason that several faults share is said once, at the first.
    """
    lines = ["faults: the mechanism that would be taken here, and its fidelity"]
    width = max(len(ladder.fault) for ladder in faults)
    shown: set[str] = set()
    for ladder in faults:
        taken = ladder.taken
        mark = "ok  " if taken else "-   "
        text = f"{taken.name}: {taken.fidelity}" if taken else "no mechanism works here"
        lines += _wrapped(f"{mark} {ladder.fault.ljust(width)}  {text}", width + 7)
        for rung in ladder.rungs:
            if rung is taken:
                break
            # A remedy stands on a line of its own in errors; here the reason is one line.
            why = one_line(rung.missing)
            reason = "see above" if str(rung.missing) in shown else why
            shown.add(str(rung.missing))
            lines += _wrapped(f"{' ' * (width + 7)}not by {rung.name}: {reason}", width + 9)
    return lines


def _wrapped(text: str, indent: int) -> list[str]:
    # A mend may hold a command line: it is not broken at its hyphens.
    return textwrap.wrap(
        text,
        max(WIDTH, indent + 50),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
