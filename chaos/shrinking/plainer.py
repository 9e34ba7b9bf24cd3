"""One fault with a plainer place, moment or size. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from chaos.plan import PlannedFault
from chaos.suite.durations import spelled
from chaos.suite.params import joint_problem, params_of
from injectors.fault import Fault

SHORTEST_S = 0.1
"""Durations and delays below this are not made shorter: other times of a job are as long."""
GROWING = frozenset({"percent", "factor"})
"""Beside all times, parameters of which less is less harm. Less of a share or a rate is more of it."""


def plainer(fault: PlannedFault, kind: type[Fault], rank: int | None) -> Iterator[tuple[str, PlannedFault]]:
    """The change in words, and the fault.

    Args:
        rank: the rank that it struck, if that is known.
    """
    yield from _places(fault, rank)
    yield from _moments(fault)
    yield from _sizes(fault, kind)


def _places(fault: PlannedFault, rank: int | None) -> Iterator[tuple[str, PlannedFault]]:
    if "role" in fault.where and rank is not None:
        yield f"on rank {rank}", replace(fault, where={"rank": rank})
    for key in ("rank", "node"):
        if fault.where.get(key, 0) > 0:
            yield f"on {key} 0", replace(fault, where={key: 0})


def _moments(fault: PlannedFault) -> Iterator[tuple[str, PlannedFault]]:
    when = fault.when
    if when.get("occurrence", 1) > 1:
        yield "at the first occurrence", replace(fault, when={**when, "occurrence": 1})
    collective = when.get("collective")
    if collective is not None:
        if collective.get("nth", 1) > 1:
            yield (
                "at the first collective",
                replace(fault, when={**when, "collective": {**collective, "nth": 1}}),
            )
        for key in ("group", "op"):
            if key in collective:
                rest = {name: value for name, value in collective.items() if name != key}
                yield (
                    f"at a collective of any {key}",
                    replace(fault, when={**when, "collective": rest or {"nth": 1}}),
                )
    if when.get("after_s", 0.0) > SHORTEST_S:
        for after_s in (0.0, round(when["after_s"] / 2, 6)):
            yield f"after {spelled(after_s)}", replace(fault, when={**when, "after_s": after_s})


def _sizes(fault: PlannedFault, kind: type[Fault]) -> Iterator[tuple[str, PlannedFault]]:
    known = params_of(kind)
    for name, value in fault.params.items():
        in_seconds = known[name].unit == "s"
        if not isinstance(value, float) or not (in_seconds or name in GROWING):
            continue
        for smaller in _less(value, SHORTEST_S if in_seconds else 1.0):
            params = {**fault.params, name: smaller}
            if joint_problem(kind, params) is None:
                said = spelled(smaller) if in_seconds else f"{smaller:g}"
                yield f"{name} {said}", _with_params(fault, params)


def _less(value: float, least: float) -> Iterator[float]:
    """A tenth and a half of it, if that is not below the least."""
    for part in (10, 2):
        if value / part >= least:
            yield round(value / part, 6)


def _with_params(fault: PlannedFault, params: Mapping[str, Any]) -> PlannedFault:
    return replace(fault, params=dict(params), duration_s=params.get("duration_s", fault.duration_s))
