"""What a good suite loads as: defaults merged, durations in seconds, shipped suites found by name."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from chaos.errors import UserError
from chaos.suite import find, load, load_text, read, shipped
from chaos.suite.durations import seconds, spelled
from chaos.suite.model import json_schema
from injectors.catalogue import CATALOGUE

MERGED = """\
suite: s
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 30, env: {A: "1", B: 2}}
  bounds: {detect: 500ms}
scenarios:
  - name: plain
  - name: other
    target: {world: 2, env: {B: "3"}}
  - name: command
    target: {kind: command, argv: [python, x.py], world: 1}
"""


def test_a_scenario_patches_the_default_target() -> None:
    loaded = load_text(MERGED, "s.yaml", CATALOGUE)
    plain, other, command = loaded.targets
    assert plain["env"] == {"A": "1", "B": "2"}
    assert (other["world"], other["env"]) == (2, {"A": "1", "B": "3"})
    # Keys of the default that belong to another kind are dropped, those that belong to both stay.
    assert "workload" not in command
    assert command["steps"] == 30


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_suite_loads_and_matches_the_published_schema(name: str) -> None:
    loaded = load(name, CATALOGUE)
    assert loaded.suite.suite == name
    plain = json.loads(json.dumps(YAML(typ="safe").load(read(find(name)))))
    jsonschema.validate(plain, json_schema())


@pytest.mark.parametrize(("text", "length_s"), [("500ms", 0.5), ("2s", 2.0), ("1.5m", 90.0), ("1h", 3600.0)])
def test_durations(text: str, length_s: float) -> None:
    assert seconds(text) == length_s
    assert seconds(spelled(length_s)) == length_s


@pytest.mark.parametrize("text", ["2", "s", "2 s", "-1s", "1d", "", "1e3s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        seconds(text)


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'smoke'"):
        find("smok")
    with pytest.raises(UserError, match="there is no file"):
        find(str(tmp_path / "x.yaml"))
    with pytest.raises(UserError, match="is a folder"):
        find(str(tmp_path))


def test_a_suite_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read(path)
