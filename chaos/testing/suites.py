"""Suite files as tests: `pytest suites/smoke.yaml` runs each scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import UserError
from chaos.plan import Plan, make_plan
from chaos.runner import facts
from chaos.suite import load, read
from chaos.suite.tree import read_tree
from chaos.testing.current import options
from chaos.testing.result import NotRecovered
from injectors.catalogue import CATALOGUE


class SuiteFile(pytest.File):
    """One suite file."""

    def collect(self) -> Iterator[ScenarioItem]:
        try:
            loaded = load(str(self.path), CATALOGUE)
            known = facts.for_plan(self.path, [*loaded.targets])
            asked = options()
            plan = make_plan(loaded, asked.seed.number, known, CATALOGUE, repeat=asked.repeat)
        except UserError as error:
            raise self.CollectError(str(error)) from None
        lines = read_tree(read(self.path))
        for index in range(len(loaded.suite.scenarios)):
            line = lines.line(("scenarios", index, "name"))
            for copy in range(asked.repeat):
                scenario = plan.scenarios[index * asked.repeat + copy]
                one = dataclasses.replace(plan, scenarios=[scenario])
                yield ScenarioItem.from_parent(self, name=scenario.name, plan=one, line=line)


class ScenarioItem(pytest.Item):
    """One scenario of a suite."""

    def __init__(self, *, plan: Plan, line: int, **more: Any) -> None:
        super().__init__(**more)
        self.plan, self.line = plan, line
        self.add_marker("torch_chaos")

    def runtest(self) -> None:
        from chaos.testing.plugin import session_of

        result = session_of(self).run_plan(self.plan)
        if not result.as_expected:
            scenario = result.first
            raise NotRecovered(f"expected {scenario.expected}, got {scenario.verdict}: {scenario.reason}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, (NotRecovered, UserError)):
            return f"{self.path}:{self.line}: {self.name}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name
