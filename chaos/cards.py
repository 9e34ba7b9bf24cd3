"""What is known of a fault, as plain data: `list`, `describe` and the pages in docs/ are drawn from it.

Where a fault is exercised is read from the suites that ship; nobody keeps a second list.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from injectors.catalogue import CATALOGUE
from injectors.fault import Fault

# What a fault may need that the machines which check every change do not have.
ABSENT_IN_CI: Mapping[str, str] = {
    "gpu": "CI has no GPU; it is tested against a stand-in for the driver's library",
    "netem": "CI's kernel has no netem",
}


@dataclass(frozen=True)
class Use:
    """One scenario of a shipped suite that has a fault."""

    suite: str
    scenario: str


@functools.cache
def uses(*, aimed_at_nothing: bool = False) -> dict[str, list[Use]]:
    """The scenarios that exercise each fault, by its id, in the order of the suites.

    A scenario that expects INCONCLUSIVE aims at nothing on purpose: it exercises the report, not the fault.
    With `aimed_at_nothing` it is those that are returned.
    """
    from chaos.suite import load, shipped

    found: dict[str, list[Use]] = {}
    for name in shipped():
        for scenario in load(name, CATALOGUE).suite.scenarios:
            if (scenario.expect.verdict == "INCONCLUSIVE") != aimed_at_nothing:
                continue
            for fault in dict.fromkeys(entry.fault for entry in scenario.faults):
                found.setdefault(fault, []).append(Use(name, scenario.name))
    return found


def untested(fault: type[Fault], used: Iterable[Use]) -> str | None:
    """Why CI does not see a fault happen for real; None where it does."""
    lacks = [ABSENT_IN_CI[need] for need in fault.needs if need in ABSENT_IN_CI]
    if lacks:
        return "; ".join(lacks)
    return None if any(True for _ in used) else "no scenario of a shipped suite has it"


def card(fault: type[Fault], used: Iterable[Use]) -> dict[str, Any]:
    """Everything known of a fault, JSON only."""
    used = list(used)
    return {
        "id": fault.id,
        "family": fault.id.partition(".")[0],
        "summary": fault.summary(),
        "text": inspect.getdoc(fault) or "",
        "acts": "inside the victim, by its agent" if fault.inside else "from outside",
        "aims_at": fault.aims_at,
        "seen_as": fault.expects,
        "parameters": [asdict(parameter) for parameter in fault.parameters()],
        "privileges": list(fault.privileges),
        "needs": list(fault.needs),
        "evidence": said(fault, "Proof"),
        "has_undo": fault.has_undo,
        "undo": said(fault, "Undo"),
        "stands_for": fault.stands_for,
        "does_not_certify": fault.does_not_certify,
        "mechanisms": [{"name": way.name, "fidelity": way.fidelity} for way in fault.mechanisms],
        "exercised_by": [asdict(use) for use in used],
        "untested": untested(fault, used),
    }


def cards() -> list[dict[str, Any]]:
    """A card for every fault, in the order of the catalogue."""
    found = uses()
    return [card(fault, found.get(name, ())) for name, fault in CATALOGUE.items()]


def said(fault: type[Fault], title: str) -> str:
    """What the docstring says after `Proof:` or `Undo:`, on one line."""
    text = inspect.getdoc(fault) or ""
    found = re.search(rf"^{title}: *(.+?)(?=^[A-Z][a-z]+:|^\s*$|\Z)", text, flags=re.M | re.S)
    return " ".join(found[1].split()) if found else ""
