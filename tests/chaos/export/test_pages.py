"""What the generated pages of the reference say of a schema and of a command."""

from __future__ import annotations

import pytest

import recovery
from chaos.export.api_page import api_page, exported, found
from chaos.export.cells import cell
from chaos.export.cli_page import cli_page
from chaos.export.suite_page import DURATION, NAMED, suite_page, words
from chaos.suite import durations
from chaos.suite.model import Suite


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer", "minimum": 0}, "a whole number from 0"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "a whole number from 1 to 9"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"anyOf": [{"type": "integer"}, {"enum": ["random"]}]}, "a whole number, or `random`"),
        ({"type": "string", "pattern": durations.PATTERN}, DURATION),
        ({"$ref": "#/$defs/FaultEntry"}, "[fault](#fault)"),
        ({"type": "array", "items": {"$ref": "#/$defs/Scenario"}}, "a list, each item [scenario](#scenario)"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "a mapping of names to text"),
        ({}, "anything"),
    ],
)  # fmt: skip
def test_a_schema_in_words(schema: dict[str, object], said: str) -> None:
    assert words(schema) == said


def test_every_model_of_a_suite_has_its_section() -> None:
    defined = set(Suite.model_json_schema()["$defs"]) | {"Suite"}
    # `expect` states its schema by hand, so it is not among the definitions.
    assert defined | {"Expect"} == set(NAMED)
    text = "\n".join(suite_page("Made"))
    assert all(f"\n## {title}\n" in text for title in NAMED.values())
    assert "| `suite` | a name: letters, digits, `_`, `.`, `-` | required |  |" in text


def test_every_verb_has_its_section_and_its_options() -> None:
    text = "\n".join(cli_page("Made"))
    assert "\n## replay\n\n    torch-chaos replay [OPTIONS] PLAN.json\n" in text
    assert (
        "| `--format {rich,json,plain}` | rich, plain lines, or the report as JSON `[default: rich]` |"
        in text
    )
    assert "default: reports/&lt;suite>-&lt;time>/" in text


def test_a_cell_is_one_line() -> None:
    assert cell("a |\n  b") == "a \\| b"


def test_every_public_name_is_told_with_its_signature_and_its_words() -> None:
    text = "\n".join(api_page("Made"))
    assert exported("recovery") == sorted(recovery.__all__)
    assert [name for name in recovery.__all__ if f"\n### `{name}" not in text] == []
    assert "\n#### `Run.steps(total: int) -> Iterator[int]`\n" in text
    assert "\n#### `Run.committed: int`\n\nNumber of committed steps.\n" in text
    assert "\n- `RecoveryError`: the loop went on without `run.step`.\n" in text
    # What Hypothesis hands in is nothing that a caller gives.
    assert "DrawFn" not in text


def test_a_name_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(LookupError, match="recovery has no joined"):
        found("recovery", "joined")
