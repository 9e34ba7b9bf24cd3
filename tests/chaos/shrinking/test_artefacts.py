from __future__ import annotations

import ast

import pytest

from chaos.plan import Plan
from chaos.shrinking.artefacts import file_name, plan_of, pytest_file
from chaos.shrinking.failure import Failure
from tests.chaos.shrinking.planned import kill, planned, scenario_of


def test_the_plan_has_the_one_scenario() -> None:
    plan = planned([kill(1), kill(2)])
    small = scenario_of([kill(1)])
    assert Plan.from_dict(plan_of(plan, small).to_dict()).scenarios == [small]
    assert plan_of(plan, small).seed == plan.seed


@pytest.mark.parametrize("hostile", ["plain", 'quotes """ and \\ and \n a new line'])
def test_the_test_is_python_with_one_test(hostile: str) -> None:
    text = pytest_file("plan.json", "my-suite", scenario_of([kill(1)]), Failure("replicas_agree"), [hostile])
    tree = ast.parse(text)
    assert [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] == ["test_s"]
    assert ast.get_docstring(tree) is not None
    assert "my-suite, s: replicas_agree did not hold." in text
    compile(text, "test_s.py", "exec")


@pytest.mark.parametrize(
    ("text", "name"), [("kill.in-backward", "kill_in_backward"), ("A b", "a_b"), ("..", "scenario")]
)
def test_names(text: str, name: str) -> None:
    assert file_name(text) == name
