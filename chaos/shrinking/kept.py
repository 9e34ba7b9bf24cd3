"""What a hunt leaves on disk, written anew with each best: however it ends, the smallest plan is there."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos.plan import Plan, PlannedScenario
from chaos.report.stored import PLAN
from chaos.runner.desk import moment
from chaos.runner.run import write
from chaos.shrinking.artefacts import file_name, plan_of, pytest_file
from chaos.shrinking.failure import Failure
from chaos.shrinking.real import RealRuns
from chaos.shrinking.variants import Variant

LOG = "shrink.jsonl"


@dataclass
class Kept:
    """Writes ``plan.json``, ``test_SCENARIO.py``, and in ``shrink.jsonl`` a line for each variant tried."""

    folder: Path
    plan: Plan
    runs: RealRuns
    failure: Failure
    best: PlannedScenario
    evidence: Path | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def test(self) -> Path:
        """The test's file."""
        return self.folder / f"test_{file_name(self.best.name)}.py"

    def tried(self, variant: Variant, failed: bool) -> None:
        """Note one variant; if it failed it is the new best, and kept before anything is said."""
        if failed:
            self.keep(variant.scenario)
        line = {
            "t": round(time.monotonic() - self._began, 3),
            "run": self.runs.runs,
            "change": variant.change,
            "faults": len(variant.scenario.faults),
            "failed": failed,
        }
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        mark = "fails " if failed else "holds "
        print(f"  {line['t']:6.1f} s  {mark} {variant.change}", flush=True)
        self.runs.forget_all_but(self.evidence)

    def keep(self, scenario: PlannedScenario) -> None:
        """Write this scenario as the best."""
        self.best = self.runs.settled(scenario)
        self.evidence = self.runs.latest
        write(self.folder / PLAN, plan_of(self.plan, self.best).to_json() + "\n")
        write(self.test, pytest_file(PLAN, self.plan.suite, self.best, self.failure, self.words()))

    def words(self) -> list[str]:
        """Each fault of the best in words."""
        return [f"{fault.name}: {moment(fault)}" for fault in self.best.faults]

    def lines(self) -> list[str]:
        """What there is now, for a person."""
        target = self.best.target
        steps = f", {target['steps']} steps" if target.get("steps") else ""
        count = len(self.best.faults)
        size = f"{count} fault{'s' * (count != 1)}, {target['world']} ranks{steps}"
        return [
            f"{self.failure.invariant} does not hold with {size}:",
            *(f"    {words}" for words in self.words()),
            f"plan: {self.folder / PLAN}   test: {self.test}   evidence: {self.evidence}",
            f"replay: torch-chaos replay {self.folder / PLAN}",
        ]
