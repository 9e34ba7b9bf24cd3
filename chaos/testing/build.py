"""From what a test wants to the plan that is run: the same way as a suite file goes, with the same checks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos.errors import UserError
from chaos.plan import Facts, Plan, make_plan
from chaos.runner import facts
from chaos.suite import find, load, load_text
from chaos.suite.load import Loaded
from chaos.targets import paths
from chaos.targets.make import sources_of
from chaos.testing.program import SCRIPT, Function
from chaos.testing.wanted import STEPS, Wanted, scenario_name, suite_of
from injectors.catalogue import CATALOGUE

Program = Callable[..., object] | str | Path | Sequence[str] | None


@dataclass(frozen=True)
class Owner:
    """The test that a run belongs to: what it is called, and the file that it is in."""

    name: str
    file: Path


def plan_of(test: Owner, program: Program, wanted: Wanted, folder: Path) -> Plan:
    """The plan of one run of a test.

    Args:
        test: whose run it is.
        program: a training function, a script, a shipped workload's name or a command line; None: a suite.
        wanted: what is asked for; its seed counts, None is the suite's own.
        folder: of the run; the script that calls a function is written there.

    Raises:
        UserError: what is wrong with it, and the remedy.
    """
    if (program is None) == (wanted.suite is None):
        raise UserError(
            f"{test.name}: what is to be run?",
            "give a function, a script or a command line, or `suite=`: one of them",
        )
    if program is None:
        return _suite_plan(test, wanted)
    label = f"{test.file.name}::{test.name}"
    if callable(program):
        target, wanted = _function(program, wanted, folder)
        return _plan(label, test, target, wanted, folder)
    if isinstance(program, (str, Path)):
        return _plan(label, test, _script(program, wanted, test.file.parent), wanted, test.file.parent)
    return _plan(label, test, {"kind": "command", "argv": [*program]}, wanted, test.file.parent)


def _plan(label: str, test: Owner, target: Mapping[str, Any], wanted: Wanted, folder: Path) -> Plan:
    # JSON is YAML: what a test says passes the checks of a suite file, and fails with the same words.
    text = json.dumps(suite_of(wanted, scenario_name(test.name), target))
    loaded = load_text(text, label, CATALOGUE)
    known = Facts(facts.torch_version(), sources_of([*loaded.targets], folder), str(folder))
    return _made(loaded, wanted, known)


def _made(loaded: Loaded, wanted: Wanted, known: Facts) -> Plan:
    return make_plan(loaded, wanted.seed, known, CATALOGUE, only=wanted.only, repeat=wanted.repeat or 1)


def _suite_plan(test: Owner, wanted: Wanted) -> Plan:
    assert wanted.suite is not None
    beside = test.file.parent / wanted.suite
    name = str(beside) if beside.is_file() else wanted.suite
    loaded = load(name, CATALOGUE)
    return _made(loaded, wanted, facts.for_plan(find(name), [*loaded.targets]))


def _function(program: Callable[..., object], wanted: Wanted, folder: Path) -> tuple[dict[str, Any], Wanted]:
    function = Function.of(program)
    wanted = replace(wanted, steps=function.steps(wanted.steps) or STEPS)
    args = dict(wanted.args) if isinstance(wanted.args, Mapping) else {}
    if wanted.args is not None and not isinstance(wanted.args, Mapping):
        raise UserError(f"{function.qualname}: args={wanted.args!r}", "a function's arguments are a mapping")
    if function.takes_steps:
        args.setdefault("steps", wanted.steps)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(function.script(args), encoding="utf-8")
    return {"kind": "recovery", "workload": SCRIPT, "sources": function.sources(Path.cwd())}, wanted


def _script(program: str | Path, wanted: Wanted, folder: Path) -> dict[str, Any]:
    target: dict[str, Any] = {"kind": "recovery", "workload": str(program)}
    if isinstance(wanted.args, Mapping):
        raise UserError(f"{program}: args={wanted.args!r}", "a script's arguments are a list of words")
    if wanted.args is not None:
        target["args"] = [*wanted.args]
    paths.workload(str(program), folder)
    return target
