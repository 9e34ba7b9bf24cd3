"""From a suite's text to checked models, or to every problem at once, each with its line, key path and
remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from chaos.errors import UserError
from chaos.suite import faults as fault_checks
from chaos.suite.model import Defaults, Expect, FaultEntry, Repeat, Scenario, Suite, TargetPatch
from chaos.suite.resolve import target_of
from chaos.suite.tree import Path, Problem, Tree, read_tree, spelled


class SuiteError(UserError):
    """A suite file with problems, all of them."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = sorted(set(problems), key=lambda p: (p.line, spelled(p.path), p.message))
        super().__init__("\n".join(self._one(problem) for problem in self.problems))

    def _one(self, problem: Problem) -> str:
        where = f"{spelled(problem.path)}: " if problem.path else ""
        return f"{self.file}:{problem.line}: {where}{problem.message}\n  mend: {problem.mend}"


@dataclass(frozen=True)
class Loaded:
    """A checked suite. `targets` holds each scenario's complete target, in the order of the scenarios."""

    suite: Suite
    targets: tuple[dict[str, Any], ...]
    file: str


def load_text(text: str, file: str, catalogue: Mapping[str, Any]) -> Loaded:
    """Check a suite's text.

    Args:
        text: the YAML.
        file: its name in messages.
        catalogue: fault classes by id, from `injectors.catalogue`.

    Raises:
        SuiteError: with every problem found.
    """
    tree = read_tree(text)
    if tree.problems:
        raise SuiteError(file, tree.problems)
    if not isinstance(tree.data, dict):
        what = "the file is empty" if tree.data is None else "a suite is a mapping"
        raise SuiteError(file, [Problem(1, (), what, "start with `suite: NAME` and `scenarios:`")])
    problems = shape_problems(tree)
    targets = _targets(tree, problems)
    problems += fault_checks.problems(tree, catalogue, targets)
    if problems:
        raise SuiteError(file, problems)
    return Loaded(Suite.model_validate(tree.data), tuple(targets), file)


def _targets(tree: Tree, problems: list[Problem]) -> list[dict[str, Any]]:
    """Each scenario's complete target; {} where its shape is wrong, which has been said already."""
    data = tree.data
    scenarios = data.get("scenarios") if isinstance(data.get("scenarios"), list) else []
    defaults = data.get("defaults") if isinstance(data.get("defaults"), dict) else {}
    base = _patch(defaults.get("target", {}))
    targets: list[dict[str, Any]] = []
    for index, scenario in enumerate(scenarios):
        own = _patch(scenario.get("target", {})) if isinstance(scenario, dict) else None
        if base is None or own is None:
            targets.append({})
            continue
        target, wrong = target_of(base, own)
        targets.append({} if wrong else target)
        for fault in wrong:
            path: Path = ("scenarios", index, "target", *(fault.key.split(".") if fault.key else ()))
            problems.append(Problem(tree.line(path), path, fault.message, fault.mend))
    return targets


def _patch(raw: Any) -> TargetPatch | None:
    try:
        return TargetPatch.model_validate(raw)
    except ValidationError:
        return None


def shape_problems(tree: Tree) -> list[Problem]:
    """Everything that the models refuse."""
    try:
        Suite.model_validate(tree.data)
    except ValidationError as error:
        return [_problem(tree, dict(item)) for item in error.errors(include_url=False)]
    return []


def _problem(tree: Tree, item: dict[str, Any]) -> Problem:
    path: Path = tuple(item["loc"])
    kind, value = item["type"], item["input"]
    context = item.get("ctx") or {}
    if kind == "missing":
        return Problem(tree.line(path[:-1]), path, "this key is required", f"add `{path[-1]}:`")
    if kind == "extra_forbidden":
        allowed = _keys_at(path[:-1])
        mend = did_you_mean(str(path[-1]), allowed) or f"allowed here: {', '.join(allowed)}"
        return Problem(tree.line(path), path, f"unknown key {path[-1]!r}", mend)
    if kind == "suite":
        return Problem(tree.line(path), path, context["message"], context["mend"])
    message, mend = _plain_words(kind, context, value)
    return Problem(tree.line(path), path, f"{message}, got {_short(value)}", mend)


def _plain_words(kind: str, context: dict[str, Any], value: Any) -> tuple[str, str]:
    match kind:
        case "literal_error":
            words = context["expected"].replace(" or ", ", ").replace("'", "").split(", ")
            mend = did_you_mean(str(value), words) or "use one of these words"
            return f"expected one of {context['expected']}", mend
        case "string_type":
            return "expected text", 'write it in quotes: "..."'
        case "int_type" | "int_from_float":
            return "expected a whole number", "write digits without quotes"
        case "float_type":
            return "expected a number", "write digits without quotes"
        case "bool_type":
            return "expected true or false", "write true or false without quotes"
        case "list_type":
            return "expected a list", "write `[a, b]`, or one `- item` a line"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "expected a mapping", "write `key: value` lines below it, indented"
        case "greater_than_equal":
            return f"expected at least {context['ge']}", f"write a number from {context['ge']}"
        case "less_than_equal":
            return f"expected at most {context['le']}", f"write a number up to {context['le']}"
        case "too_short":
            return f"expected at least {context['min_length']} entry", "add one"
        case "string_pattern_mismatch":
            return "expected a name", "use letters, digits, `_`, `.` and `-`, starting with a letter or digit"
        case "string_too_long":
            return f"expected at most {context['max_length']} characters", "shorten it"
        case _:
            return kind.replace("_", " "), "see `torch-chaos schema`"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?`, or nothing when no known word is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else ""


_MODELS: dict[str, type[BaseModel]] = {
    "defaults": Defaults,
    "scenarios": Scenario,
    "faults": FaultEntry,
    "repeat": Repeat,
    "expect": Expect,
}


def _keys_at(path: Path) -> list[str]:
    """The keys that the model at a key path has, as they are written in YAML."""
    model: type[BaseModel] = Suite
    for part in path:
        if isinstance(part, int):
            continue
        field = _field(model, part)
        found = _MODELS.get(part) or _model_in(field.annotation if field else None)
        if found is None:
            return []
        model = found
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(model: type[BaseModel], key: str) -> Any:
    return next((f for name, f in model.model_fields.items() if (f.alias or name) == key), None)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None` or `list[Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_in(inner)
        if found is not None:
            return found
    return None
