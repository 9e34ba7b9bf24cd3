"""What a test wants to be run and broken: keywords of the marker and of `torch_chaos.run`, and the suite that
they come to. Pure: a suite is plain data, and is checked as a suite file is."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from chaos.errors import UserError

Fault = str | Mapping[str, Any]

WORLD, STEPS = 2, 20
RUN = "60s"


def fault(
    name: str,
    *,
    rank: int | str | None = None,
    role: str | None = None,
    node: int | str | None = None,
    for_: str | None = None,
    id: str | None = None,
    with_: Mapping[str, Any] | None = None,
    **when: Any,
) -> dict[str, Any]:
    """One fault, as an entry of a suite.

    Args:
        name: `process.kill`, for example; `torch-chaos list` has all.
        rank, role, node: whom it strikes; a random rank if none is given.
        for_: how long, `500ms`.
        id: what `after_fault` of a later one calls it.
        with_: its parameters.
        when: `step`, `phase`, `event`, `collective`, `occurrence`, `after_s`, `after_fault`: the moment.
    """
    places = {"rank": rank, "role": role, "node": node}
    where = {key: value for key, value in places.items() if value is not None} or {"rank": "random"}
    entry: dict[str, Any] = {"fault": name, "where": where, "when": when}
    more = {"id": id, "for": for_, "with": dict(with_) if with_ else None}
    return {**entry, **{key: value for key, value in more.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a test asks for; None is what it leaves open.

    Attributes:
        suite: a shipped suite's name or a file, instead of a program; `only` names some of its scenarios.
        faults: entries of a suite, or bare names: a random rank in a random step.
        world: ranks.
        steps: steps that a whole run commits.
        cluster: `netns`, `docker` or `local` (two nodes), or `{kind: netns, nodes: 4}`.
        seed: root of every random choice.
        repeat: how often each scenario is run, with draws of its own.
        spares: warm processes of the runtime.
        args: arguments: a mapping for a function, words for a script.
        env: added to the job's environment.
        bounds: `{detect: 500ms, recover: 2s, run: 60s}`; `run` is the deadline.
        expect: the verdict that is right, as in a suite.
        recoveries: how many are right; without it one for each fault that calls for one.
    """

    suite: str | None = None
    only: str | None = None
    faults: Sequence[Fault] | None = None
    world: int | None = None
    steps: int | None = None
    cluster: str | Mapping[str, Any] | None = None
    seed: int | None = None
    repeat: int | None = None
    spares: int | None = None
    args: Mapping[str, Any] | Sequence[str] | None = None
    env: Mapping[str, str] | None = None
    bounds: Mapping[str, str] | None = None
    expect: Any = None
    recoveries: int | None = None

    @classmethod
    def of(cls, where: str, keywords: Mapping[str, Any]) -> Wanted:
        """From keywords.

        Raises:
            UserError: one that there is not; `where` says who wrote it.
        """
        known = [each.name for each in fields(cls)]
        for name in keywords:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                mend = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(known)}"
                raise UserError(f"{where}: unknown keyword {name!r}", mend)
        return cls(**keywords)

    def over(self, other: Wanted) -> Wanted:
        """This one, with what it leaves open taken from `other`."""
        open_ = {each.name for each in fields(self) if getattr(self, each.name) is None}
        return replace(self, **{name: getattr(other, name) for name in open_})


def suite_of(wanted: Wanted, name: str, program: Mapping[str, Any]) -> dict[str, Any]:
    """A suite of one scenario.

    Args:
        wanted: what is asked for.
        name: the scenario's.
        program: the target's kind and program, as in a suite.
    """
    steps = wanted.steps or STEPS
    target: dict[str, Any] = {**program, "world": wanted.world or WORLD, "steps": steps}
    if wanted.spares is not None:
        target["spares"] = wanted.spares
    if wanted.env:
        target["env"] = dict(wanted.env)
    if wanted.cluster is not None:
        target["cluster"] = cluster_of(wanted.cluster)
    scenario: dict[str, Any] = {
        "name": name,
        "target": target,
        "faults": [entry_of(each, steps) for each in wanted.faults or ()],
        "bounds": {"run": RUN, **(wanted.bounds or {})},
    }
    if wanted.expect is not None:
        scenario["expect"] = wanted.expect
    if wanted.recoveries is not None:
        scenario["recoveries"] = wanted.recoveries
    return {"suite": name, "scenarios": [scenario]}


def entry_of(wanted: Fault, steps: int) -> dict[str, Any]:
    """A suite's entry. A bare name strikes a random rank, in a step that is neither of the first nor last."""
    if not isinstance(wanted, str):
        return dict(wanted)
    first = min(steps - 1, max(1, steps // 4))
    return fault(wanted, step=[first, max(first, 3 * steps // 4)])


def cluster_of(wanted: str | Mapping[str, Any]) -> dict[str, Any]:
    """A suite's cluster: of a bare kind, two nodes."""
    return {"kind": wanted, "nodes": 2} if isinstance(wanted, str) else dict(wanted)


def scenario_name(test: str) -> str:
    """A test's name as scenarios may be called: letters, digits, `_`, `.` and `-`, at most 80."""
    kept = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_.-") else "-" for sign in test)
    return kept.strip("-._")[:70].rstrip("-") or "test"
