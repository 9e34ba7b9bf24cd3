"""What a plan needs of this machine and does not find. Tried, not guessed, for what the plan names alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from chaos.clusters.make import PROBES
from chaos.errors import one_line
from chaos.plan import Plan
from chaos.runner import facts
from chaos.testing.options import Options
from injectors.catalogue import CATALOGUE


@dataclass(frozen=True)
class Missing:
    """One thing that is not here. `names`: by what `--torch-chaos-require` may insist on it."""

    what: str
    why: str
    names: frozenset[str]

    def required(self, names: Iterable[str]) -> bool:
        """Whether this machine was said to have it."""
        return bool(self.names & {*names})

    def __str__(self) -> str:
        return one_line(f"{self.what}: {self.why}")


def names() -> frozenset[str]:
    """Everything that `--torch-chaos-require` may insist on: what `missing` can name."""
    faults = {*CATALOGUE}
    return frozenset({"all", "torch", *PROBES, *faults, *(name.partition(".")[0] for name in faults)})


def missing(plan: Plan) -> list[Missing]:
    """Everything that is missing for a plan."""
    return list(_missing(plan))


def _missing(plan: Plan) -> Iterator[Missing]:
    if not facts.torch_version():
        yield Missing("torch", "it is not installed", frozenset({"torch", "all"}))
    for kind in sorted({s.target["cluster"]["kind"] for s in plan.scenarios if s.target.get("cluster")}):
        found = PROBES[kind]()
        if not found.works:
            yield Missing(f"cluster {kind}", f"{found.detail}; {found.mend}", frozenset({kind, "all"}))
    for name in sorted({fault.name for scenario in plan.scenarios for fault in scenario.faults}):
        reasons = [_tried(way.probe) for way in CATALOGUE[name].mechanisms]
        if reasons and all(reason is not None for reason in reasons):
            names = frozenset({name, name.partition(".")[0], "all"})
            yield Missing(name, str(reasons[0]), names)


def skip_or_fail(lacking: Sequence[Missing], options: Options) -> None:
    """Skip the test where this machine lacks something, or fail it where that was required."""
    __tracebackhide__ = True
    for each in lacking:
        if each.required(options.require):
            pytest.fail(f"{each}\n--torch-chaos-require says that this machine has it", pytrace=False)
    if lacking:
        pytest.skip("; ".join(map(str, lacking)))


def _tried(probe: Callable[[], str | None]) -> str | None:
    try:
        return probe()
    except Exception as error:  # a probe that breaks has not shown that anything works
        return f"its probe failed: {error!r}"
