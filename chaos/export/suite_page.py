"""The page about suite files, drawn from the models that check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chaos.export.cells import cell
from chaos.suite import durations
from chaos.suite.model import (
    EVENTS,
    PHASES,
    Bounds,
    ClusterPatch,
    Collective,
    Defaults,
    Expect,
    FaultEntry,
    Model,
    Repeat,
    Scenario,
    StepRule,
    Suite,
    TargetPatch,
    When,
    Where,
)

# In the order of a file read from its top; each title is a heading, so one word.
TITLES: Mapping[type[Model], str] = {
    Suite: "file",
    Defaults: "defaults",
    TargetPatch: "target",
    ClusterPatch: "cluster",
    StepRule: "step",
    Scenario: "scenario",
    FaultEntry: "fault",
    Where: "where",
    When: "when",
    Collective: "collective",
    Repeat: "repeat",
    Bounds: "bounds",
    Expect: "expect",
}
NAMED = {model.__name__: title for model, title in TITLES.items()}
DURATION = "a duration: `500ms`, `2s`, `1.5m`, `1h`"
PLAIN = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "`true` or `false`",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def suite_page(made: str) -> Iterator[str]:
    """Lines of the page. `made`: how it is made, for its first line."""
    yield "# Suite files\n"
    yield f"{made}. `torch-chaos schema` prints the same as a JSON Schema, for editors; `torch-chaos"
    yield "validate FILE` says every mistake at once, with its line. A key that is not listed here is one.\n"
    for model, title in TITLES.items():
        yield f"## {title}\n"
        yield f"{cell(model.__doc__ or '')}\n"
        yield "| key | value | default | |"
        yield "|---|---|---|---|"
        schema = model.model_json_schema(by_alias=True)
        for key, field in schema["properties"].items():
            yield _row(key, field, key in schema.get("required", ()))
        yield ""
    yield "## Phases\n"
    yield f"What `when: {{phase: ...}}` may say: {_listed((*PHASES, 'random'))}.\n"
    yield "## Events\n"
    yield f"What `when: {{event: ...}}` may say; [Events](../events.md) has their fields: {_listed(EVENTS)}."


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(key: str, field: Mapping[str, Any], required: bool) -> str:
    default = "required" if required else _default(field.get("default"))
    return f"| `{key}` | {cell(words(field))} | {default} | {cell(field.get('description', ''))} |"


def _default(value: object) -> str:
    if value is None or value in ("", [], {}):
        return "-"
    # A section's default is that of its own keys, which its own table says.
    return "-" if isinstance(value, dict) else f"`{value}`"


def words(schema: Mapping[str, Any]) -> str:
    """A JSON Schema in words."""
    if "$ref" in schema:
        title = NAMED[schema["$ref"].rsplit("/", 1)[1]]
        return f"[{title}](#{title})"
    if "anyOf" in schema:
        ways = [words(way) for way in schema["anyOf"] if way.get("type") != "null"]
        return ", or ".join(dict.fromkeys(ways))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    return _plain(schema)


def _plain(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(PLAIN[one] for one in kind)
    if kind is None:
        return "anything"
    if schema.get("pattern") == durations.PATTERN:
        return DURATION
    if kind == "string" and "pattern" in schema:
        return "a name: letters, digits, `_`, `.`, `-`"
    if kind == "array":
        if schema.get("minItems") == schema.get("maxItems") == 2:
            return "`[lowest, highest]`, of which the seed draws one"
        return f"a list, each item {words(schema['items'])}" if schema.get("items") else PLAIN["array"]
    if kind == "object" and "properties" in schema:
        return "a mapping of " + ", ".join(f"`{key}`" for key in schema["properties"])
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"a mapping of names to {words(schema['additionalProperties'])}"
    return PLAIN[kind] + _limits(schema)


def _limits(schema: Mapping[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return ""
    return f" from {low}" if high is None else f" from {low} to {high}"
