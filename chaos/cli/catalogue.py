"""`list` and `describe`, drawn from the catalogues: there is no second list."""

from __future__ import annotations

import difflib
import json
import textwrap
from typing import Any, Literal

from chaos import cards
from chaos.errors import UserError
from injectors.catalogue import CATALOGUE

WIDTH = 100


def show_list(what: Literal["faults", "invariants", "suites"], as_json: bool = False) -> None:
    """Print names, one a line, with what they do; with `as_json`, everything known of each."""
    if as_json:
        known = {"faults": cards.cards, "invariants": _invariants, "suites": _suites}
        print(json.dumps(known[what](), indent=2))
        return
    match what:
        case "faults":
            rows = {name: fault.summary() for name, fault in CATALOGUE.items()}
        case "invariants":
            rows = {item["name"]: item["summary"] for item in _invariants()}
        case "suites":
            rows = {item["name"]: item["description"] for item in _suites()}
    width = max((len(name) for name in rows), default=0)
    for name, text in rows.items():
        print(f"{name.ljust(width)}  {text}")


def _invariants() -> list[dict[str, Any]]:
    from chaos.invariants import catalogue

    return [
        {"name": name, "summary": _first_line(item), "text": _text(item)} for name, item in catalogue.items()
    ]


def _text(item: object) -> str:
    return textwrap.dedent(getattr(item, "__doc__", None) or "").strip()


def _first_line(item: object) -> str:
    text = _text(item)
    return text.splitlines()[0] if text else ""


def _suites() -> list[dict[str, Any]]:
    from chaos.suite import shipped

    return [_suite(name) for name in shipped()]


def _suite(name: str) -> dict[str, Any]:
    from chaos.suite import load

    suite = load(name, CATALOGUE).suite
    scenarios = [
        {
            "name": scenario.name,
            "description": scenario.description,
            "faults": [entry.fault for entry in scenario.faults],
            "expect": scenario.expect.verdict,
        }
        for scenario in suite.scenarios
    ]
    return {"name": name, "description": suite.description, "scenarios": scenarios}


def describe(name: str, as_json: bool = False) -> None:
    """Print everything known of a name.

    Raises:
        UserError: nothing is called that.
    """
    about = _about(name)
    if as_json:
        print(json.dumps(about, indent=2))
    elif "family" in about:
        print("\n".join(_fault_lines(about)))
    elif "scenarios" in about:
        print(f"{name}: {about['description']}\n")
        for scenario in about["scenarios"]:
            print(f"  {scenario['name']}: {scenario['description'] or ', '.join(scenario['faults'])}")
    else:
        print(f"{name}\n\n{about['text']}")


def _about(name: str) -> dict[str, Any]:
    if name in CATALOGUE:
        return cards.card(CATALOGUE[name], cards.uses().get(name, ()))
    from chaos.invariants import catalogue
    from chaos.suite import shipped

    if name in catalogue:
        return next(item for item in _invariants() if item["name"] == name)
    if name in shipped():
        return _suite(name)
    known = [*CATALOGUE, *catalogue, *shipped()]
    close = difflib.get_close_matches(name, known, n=1)
    mend = (
        f"did you mean {close[0]!r}?" if close else "see `torch-chaos list`, `list invariants`, `list suites`"
    )
    raise UserError(f"nothing is called {name!r}", mend)


def _fault_lines(card: dict[str, Any]) -> list[str]:
    lines = [card["id"], "", *textwrap.indent(card["text"], "    ").splitlines(), ""]
    for title, text in (("stands for", card["stands_for"]), ("does not certify", card["does_not_certify"])):
        lines += textwrap.wrap(f"{title}: {text}", WIDTH, subsequent_indent="  ")
    lines += [
        f"acts: {card['acts']}",
        f"aims at: {'a rank' if card['aims_at'] == 'process' else 'nodes of a cluster'}",
        f"undo: {'yes, written ahead' if card['has_undo'] else 'nothing to undo'}",
        f"an outsider should see: {card['seen_as'] or 'no recovery'}",
        f"privileges: {', '.join(card['privileges']) or 'none'}",
        f"needs: {', '.join(card['needs']) or 'nothing special'}",
        *_mechanism_lines(card["mechanisms"]),
        "parameters:" if card["parameters"] else "parameters: none",
        *(f"  {_about_parameter(parameter)}" for parameter in card["parameters"]),
        *_use_lines(card),
    ]
    return lines


def _mechanism_lines(ways: list[dict[str, str]]) -> list[str]:
    lines = ["mechanisms, best first (`torch-chaos doctor` says which one is taken here):"]
    for way in ways:
        lines += textwrap.wrap(
            f"{way['name']}: {way['fidelity']}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
    return lines


def _use_lines(card: dict[str, Any]) -> list[str]:
    suites: dict[str, list[str]] = {}
    for use in card["exercised_by"]:
        suites.setdefault(use["suite"], []).append(use["scenario"])
    where = "; ".join(f"{suite}: {', '.join(names)}" for suite, names in suites.items())
    lines = textwrap.wrap(f"exercised by {where or 'no shipped suite'}", WIDTH, subsequent_indent="  ")
    return [*lines, f"untested: {card['untested']}"] if card["untested"] else lines


def _about_parameter(parameter: dict[str, Any]) -> str:
    default = "required" if parameter["required"] else f"default {parameter['default']}"
    limits = []
    if parameter["minimum"] is not None or parameter["maximum"] is not None:
        limits.append(f"{parameter['minimum']} to {parameter['maximum']}")
    if parameter["choices"]:
        limits.append(f"one of {', '.join(parameter['choices'])}")
    unit = f" {parameter['unit']}" if parameter["unit"] else ""
    kinds = "; ".join([*limits, default])
    return f"{parameter['name']} ({parameter['kind']}{unit}; {kinds}): {parameter['help']}"
