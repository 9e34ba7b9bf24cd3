"""From what a user asks for to a plan for a running job: the entries, checks and words of a suite file.

A job that was not started by the tool has no agent in it and tells no steps. So a fault is placed by time,
and strikes from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chaos.attach.job import Job
from chaos.errors import Refused, UserError
from chaos.invariants.scene import ATTACHED
from chaos.plan import Facts, Plan, PlannedFault, make_plan
from chaos.runner.desk import HEAL_S
from chaos.suite import durations
from chaos.suite import faults as suite_faults
from chaos.suite.load import Loaded, shape_problems
from chaos.suite.model import Suite
from chaos.suite.params import params_of
from chaos.suite.tree import Path, Problem, Tree, read_tree, spelled
from injectors.fault import Fault

NAME = "attach"
AT: Path = ("scenarios", 0, "faults")
"""Where the entries are in the suite that they are checked as."""
MOMENTS = frozenset({"after_s", "after_fault"})

Catalogue = Mapping[str, type[Fault]]


@dataclass(frozen=True)
class Asked:
    """The faults of a command line; `rank` to `params` are for each of them that has such a thing.

    Attributes:
        names: of faults.
        rank, node: a number, or `random`.
        for_, wait: how long, and how long after attaching: `3s`.
        params: `name=value`.
    """

    names: tuple[str, ...]
    rank: str | None = None
    node: str | None = None
    for_: str | None = None
    wait: str | None = None
    params: tuple[str, ...] = ()


@dataclass(frozen=True)
class Site:
    """What the faults are for.

    Attributes:
        job: as it was found.
        nodes: how many nodes of its own it has on this machine, 0 if its ranks share the machine's network.
        no_nodes: why there are none, in words.
        within_s: when everything ends at the latest.
        settle_s: how long the job is looked at afterwards.
    """

    job: Job
    nodes: int
    no_nodes: str
    within_s: float
    settle_s: float

    @property
    def target(self) -> dict[str, Any]:
        """The job as a plan's target."""
        return {
            "kind": ATTACHED,
            "world": self.job.world,
            "pids": [list(one.id) for one in self.job.roots or tuple(self.job.ranks.values())],
            "settle_s": self.settle_s,
            "cluster": {"kind": "found", "nodes": max(1, self.nodes)},
        }


@dataclass(frozen=True)
class Entries:
    """Entries of a suite, and how a message names the place of one.

    Attributes:
        tree: a whole suite that holds them.
        file: the file that they came from, "" for the command line.
    """

    tree: Tree
    file: str = ""

    @property
    def list(self) -> list[Any]:
        """The entries, whatever the user wrote."""
        found = self.tree.data["scenarios"][0]["faults"]
        return found if isinstance(found, list) else []

    def told(self, problem: Problem) -> str:
        """A problem in words: as in a suite file, or with the option that it is about."""
        path = problem.path[2:] if problem.path[:2] == AT[:2] else problem.path
        if self.file:
            where = f"{self.file}:{problem.line}: {spelled(path)}"
        else:
            entry = self.list[path[1]] if len(path) > 1 and isinstance(path[1], int) else {}
            rest = spelled(path[2:])
            where = f"--fault {entry.get('fault', '?')}" + (f": {rest}" if rest else "")
        return f"{where}: {problem.message}\n  mend: {problem.mend}"


def armable(catalogue: Catalogue, nodes: bool) -> list[str]:
    """The faults that can strike a running job; those of nodes only where it has nodes of its own."""
    return [
        name
        for name, kind in catalogue.items()
        if not kind.needs_run and not kind.inside and (nodes or kind.aims_at != "nodes")
    ]


# -- what the user wrote


def of_words(asked: Asked, catalogue: Catalogue) -> Entries:
    """The entries that a command line asks for.

    Raises:
        UserError: a parameter that is no `name=value`.
    """
    values = dict(_pair(word) for word in asked.params)
    kinds = [catalogue[name] for name in asked.names if name in catalogue]
    # What no fault of the line knows is a mistake, and the check of each entry says so.
    lost = {key for key in values if not any(key in params_of(kind) for kind in kinds)}
    timed = any("duration_s" in params_of(kind) for kind in kinds)
    entries = []
    for name in asked.names:
        known = params_of(catalogue[name]) if name in catalogue else {}
        entry: dict[str, Any] = {"fault": name, "when": {"after_s": asked.wait or 0}}
        where = {key: _number(word) for key, word in _places(asked) if word is not None}
        if where:
            entry["where"] = where
        if asked.for_ is not None and ("duration_s" in known or not timed):
            entry["for"] = asked.for_
        if given := {key: value for key, value in values.items() if key in known or key in lost}:
            entry["with"] = given
        entries.append(entry)
    return Entries(_suite(entries))


def of_text(text: str, file: str) -> Entries:
    """The entries of a file: a mapping with `faults:`, and entries as a suite has them.

    Raises:
        UserError: it is no YAML, or something else.
    """
    read = read_tree(text)
    if read.problems:
        raise UserError("\n".join(f"{file}:{p.line}: {p.message}\n  mend: {p.mend}" for p in read.problems))
    if not isinstance(read.data, dict) or set(read.data) != {"faults"}:
        raise UserError(
            f"{file}: not a list of faults",
            "write `faults:`, and below it entries as in a suite, such as "
            "- {fault: process.stop, where: {rank: 1}, for: 3s}",
        )
    given = read.data["faults"]
    entries = [_with_moment(entry) for entry in given] if isinstance(given, list) else given
    tree = _suite(entries)
    tree.lines |= {(*AT, *path[1:]): line for path, line in read.lines.items() if path[:1] == ("faults",)}
    return Entries(tree, file)


def _with_moment(entry: Any) -> Any:
    return {"when": {"after_s": 0}, **entry} if isinstance(entry, dict) else entry


def _suite(entries: Any) -> Tree:
    return Tree({"suite": NAME, "scenarios": [{"name": NAME, "faults": entries}]})


def _places(asked: Asked) -> Iterator[tuple[str, str | None]]:
    yield from (("rank", asked.rank), ("node", asked.node))


def _pair(word: str) -> tuple[str, Any]:
    name, sign, value = word.partition("=")
    if not sign or not name:
        raise UserError(f"--param {word}: no `=` in it", "write name=value, as in --param share=0.5")
    return name, _number(value)


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word


# -- the checks


def plan_of(entries: Entries, site: Site, seed: int, facts: Facts, catalogue: Catalogue) -> Plan:
    """The plan of a session.

    Raises:
        UserError: every problem at once; `Refused` where all of them are that a running job can't have it.
    """
    refused = _refused(entries, site, catalogue)
    problems = _problems(entries, site, catalogue, set(refused))
    if problems or not entries.list:
        lines = [entries.told(problem) for problem in sorted(set(problems), key=_order)]
        lines += list(refused.values()) or ([] if lines else ["no fault is asked for\n  mend: --fault NAME"])
        raise UserError("\n".join(lines))
    if refused:
        raise Refused(
            "\n".join(refused.values()), f"take one of {', '.join(armable(catalogue, site.nodes > 1))}"
        )
    loaded = Loaded(
        Suite.model_validate(entries.tree.data), (site.target,), entries.file or "the command line"
    )
    plan = make_plan(loaded, seed, facts, catalogue)
    scenario = plan.scenarios[0]
    if late := list(_late(scenario.faults, site.within_s)):
        raise UserError("\n".join(late))
    bounds = {**scenario.bounds, "run_s": site.within_s}
    # The checks of a suite ask for a cluster; what is found is no cluster that anyone could make.
    target = {key: value for key, value in site.target.items() if key != "cluster"}
    return replace(plan, scenarios=[replace(scenario, bounds=bounds, target=target)])


def _order(problem: Problem) -> tuple[int, str, str]:
    return problem.line, spelled(problem.path), problem.message


def _refused(entries: Entries, site: Site, catalogue: Catalogue) -> dict[int, str]:
    """By number of the entry: why a running job, or this one, can't have its fault."""
    found = {}
    for index, entry in enumerate(entries.list):
        kind = catalogue.get(entry.get("fault", "")) if isinstance(entry, dict) else None
        if kind is None:
            continue
        if kind.needs_run:
            found[index] = f"{kind.id} can't be armed on a running job: it takes {kind.needs_run}"
        elif kind.aims_at == "nodes" and site.nodes < 2:
            found[index] = f"{kind.id} acts on nodes and what is between them: {site.no_nodes}"
    return found


def _problems(entries: Entries, site: Site, catalogue: Catalogue, refused: set[int]) -> list[Problem]:
    own = list(_own_problems(entries, site))
    tree = entries.tree
    # An entry without a place has been found; what else is wrong with it must be said too.
    for entry in entries.list:
        if isinstance(entry, dict):
            entry.setdefault("where", {"rank": min(site.job.ranks)})
    found = shape_problems(tree) + suite_faults.problems(tree, catalogue, [site.target])
    # That a fault inside the process has no moment by time says no more than that it can't be armed.
    said = [p for p in found if not (_entry_of(p) in refused and p.path[4:6] == ("when", "after_s"))]
    return own + said


def _entry_of(problem: Problem) -> int | None:
    index = problem.path[3] if problem.path[:3] == AT and len(problem.path) > 3 else None
    return index if isinstance(index, int) else None


def _own_problems(entries: Entries, site: Site) -> Iterator[Problem]:
    here = ", ".join(map(str, site.job.ranks))
    for index, entry in enumerate(entries.list):
        if not isinstance(entry, dict):
            continue
        at: Path = (*AT, index)

        def problem(key: Path, message: str, mend: str, at: Path = at) -> Problem:
            return Problem(entries.tree.line((*at, *key)), (*at, *key), message, mend)

        where = entry.get("where")
        if where is None:
            mend = "where: {rank: 1}" if entries.file else "--rank N, or --rank random"
            yield problem((), f"on which rank? {here} are here", mend)
        elif isinstance(where, dict):
            for key, message, mend in _place(where, site, here):
                yield problem(("where", key), message, mend)
        when = entry.get("when")
        if isinstance(when, dict):
            for key in sorted(set(when) - MOMENTS):
                what = f"a running job shows no {key}: nothing of the tool is in it"
                yield problem(("when", key), what, "place it by time: when: {after_s: 5s}")


def _place(where: Mapping[str, Any], site: Site, here: str) -> Iterator[tuple[str, str, str]]:
    rank, role = where.get("rank"), where.get("role")
    if isinstance(rank, int) and rank in site.job.elsewhere:
        yield "rank", f"rank {rank} has no process on this machine", f"one of {here}"
    if rank in ("random", "other") and site.job.elsewhere:
        yield "rank", f"{rank!r} may be a rank on another machine", f"name one of {here}"
    if role not in (None, "lowest_live"):
        yield "role", f"a running job does not show who is {role}", "name a rank, or role: lowest_live"


def _late(faults: list[PlannedFault], within_s: float) -> Iterator[str]:
    """Faults that would outlast the session."""
    starts: dict[str, float] = {}
    for fault in faults:
        starts[fault.id] = float(fault.when["after_s"]) + starts.get(fault.when.get("after_fault", ""), 0.0)
        lasts_s = (fault.duration_s or HEAL_S) if fault.has_undo else 0.0
        end_s = starts[fault.id] + lasts_s
        if end_s > within_s:
            ends, limit = durations.spelled(end_s), durations.spelled(within_s)
            yield (
                f"{fault.id} ({fault.name}) would end after {ends}, and the session ends after {limit}\n"
                "  mend: a larger --within, or a shorter --for or --wait"
            )
