"""`list` and `describe`, drawn from the catalogues: there is no second list."""

from __future__ import annotations

import difflib
import textwrap
from typing import Literal

from chaos.errors import UserError
from injectors.catalogue import CATALOGUE
from injectors.fault import Fault, Parameter

WIDTH = 100


def show_list(what: Literal["faults", "invariants", "suites"]) -> None:
    """Print names, one a line, with what they do."""
    rows = {"faults": _faults, "invariants": _invariants, "suites": _suites}[what]()
    width = max((len(name) for name in rows), default=0)
    for name, text in rows.items():
        print(f"{name.ljust(width)}  {text}")


def _faults() -> dict[str, str]:
    return {name: fault.summary() for name, fault in CATALOGUE.items()}


def _invariants() -> dict[str, str]:
    from chaos.invariants import catalogue

    return {name: _first_line(item) for name, item in catalogue.items()}


def _first_line(item: object) -> str:
    text = getattr(item, "__doc__", None) or ""
    return text.strip().splitlines()[0] if text.strip() else ""


def _suites() -> dict[str, str]:
    from chaos.suite import load, shipped

    return {name: load(name, CATALOGUE).suite.description for name in shipped()}


def describe(name: str) -> None:
    """Print everything known of a name.

    Raises:
        UserError: nothing is called that.
    """
    if name in CATALOGUE:
        print("\n".join(_about_fault(CATALOGUE[name])))
        return
    from chaos.invariants import catalogue
    from chaos.suite import load, shipped

    if name in catalogue:
        print(f"{name}\n\n{textwrap.dedent(getattr(catalogue[name], '__doc__', None) or '').strip()}")
        return
    if name in shipped():
        suite = load(name, CATALOGUE).suite
        print(f"{name}: {suite.description}\n")
        for scenario in suite.scenarios:
            print(f"  {scenario.name}: {scenario.description or ', '.join(f.fault for f in scenario.faults)}")
        return
    known = [*CATALOGUE, *catalogue, *shipped()]
    close = difflib.get_close_matches(name, known, n=1)
    mend = (
        f"did you mean {close[0]!r}?" if close else "see `torch-chaos list`, `list invariants`, `list suites`"
    )
    raise UserError(f"nothing is called {name!r}", mend)


def _about_fault(fault: type[Fault]) -> list[str]:
    lines = [fault.id, "", *textwrap.dedent(f"    {(fault.__doc__ or '').strip()}").splitlines(), ""]
    for title, text in (("stands for", fault.stands_for), ("does not certify", fault.does_not_certify)):
        lines += textwrap.wrap(f"{title}: {text}", WIDTH, subsequent_indent="  ")
    lines += [
        f"acts: {'inside the victim, by its agent' if fault.inside else 'from outside'}",
        f"undo: {'yes' if fault.has_undo else 'nothing to undo'}",
        f"an outsider should see: {fault.expects or 'no recovery'}",
        f"privileges: {', '.join(fault.privileges) or 'none'}",
        "parameters:" if fault.parameters() else "parameters: none",
    ]
    return [*lines, *(f"  {_about_parameter(parameter)}" for parameter in fault.parameters())]


def _about_parameter(parameter: Parameter) -> str:
    default = "required" if parameter.required else f"default {parameter.default}"
    limits = []
    if parameter.minimum is not None or parameter.maximum is not None:
        limits.append(f"{parameter.minimum} to {parameter.maximum}")
    if parameter.choices:
        limits.append(f"one of {', '.join(parameter.choices)}")
    unit = f" {parameter.unit}" if parameter.unit else ""
    return f"{parameter.name} ({parameter.kind}{unit}; {'; '.join([*limits, default])}): {parameter.help}"
