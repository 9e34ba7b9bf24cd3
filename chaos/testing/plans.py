"""A drawn plan: which faults strike whom and when, complete and pure data. A failed property leaves one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.errors import UserError
from chaos.plan import Plan, PlannedFault, canonical


@dataclass(frozen=True)
class FaultPlan:
    """Faults for a job of `world` ranks and `steps` steps. Its `repr` is the code that makes it again.

    Attributes:
        faults: entries of a suite, with nothing left to draw.
        seed: the training's.
    """

    world: int
    steps: int
    faults: tuple[dict[str, Any], ...]
    seed: int = 0

    @property
    def key(self) -> str:
        """One spelling for equal plans."""
        return canonical([self.world, self.steps, list(self.faults), self.seed])

    def __hash__(self) -> int:
        return hash(self.key)

    @classmethod
    def load(cls, path: str | Path) -> FaultPlan:
        """The faults of a stored plan: of its first scenario.

        Raises:
            UserError: it cannot be read, or is not a plan.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: not a plan: {error}", "name a plan.json") from None
        return cls.of(Plan.from_dict(data if isinstance(data, Mapping) else {}))

    @classmethod
    def of(cls, plan: Plan) -> FaultPlan:
        """The faults of a plan's first scenario.

        Raises:
            UserError: it has none, or does not say how many steps there are.
        """
        if not plan.scenarios or not plan.scenarios[0].target.get("steps"):
            raise UserError(f"{plan.suite}: no scenario with a number of steps", "name another plan")
        scenario = plan.scenarios[0]
        entries = tuple(_entry(fault) for fault in scenario.faults)
        return cls(scenario.target["world"], scenario.target["steps"], entries, plan.seed)


def _entry(fault: PlannedFault) -> dict[str, Any]:
    entry: dict[str, Any] = {"fault": fault.name, "where": dict(fault.where), "when": dict(fault.when)}
    params = {name: value for name, value in fault.params.items() if value is not None}
    return {**entry, "id": fault.id, **({"with": params} if params else {})}
