"""What the models cannot know: the catalogue of faults, and how the entries of one scenario refer to each
other."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from chaos.suite.model import EVENTS, PHASES
from chaos.suite.params import joint_problem, params_of, problem_of
from chaos.suite.tree import Path, Problem, Tree
from injectors.agent.trigger import OPS


def problems(tree: Tree, catalogue: Mapping[str, Any], targets: list[dict[str, Any]]) -> list[Problem]:
    """Everything wrong with faults. Works on the raw tree, so it also speaks when the models already refused
    the file.

    Args:
        tree: the suite file.
        catalogue: fault classes by id.
        targets: complete targets by scenario, empty if the file's shape is wrong (ranges are then not
        checked).
    """
    found: list[Problem] = []
    scenarios = _list(tree.data.get("scenarios"))
    names: dict[str, int] = {}
    for index, scenario in enumerate(scenarios):
        if not isinstance(scenario, dict):
            continue
        path: Path = ("scenarios", index)
        name = scenario.get("name")
        if isinstance(name, str):
            if name in names:
                message = f"the scenario name {name!r} is already used in line {names[name]}"
                found.append(
                    Problem(tree.line((*path, "name")), (*path, "name"), message, "give each its own name")
                )
            else:
                names[name] = tree.line((*path, "name"))
        target = targets[index] if index < len(targets) else {}
        found += _Scenario(tree, path, scenario, target, catalogue).problems()
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


class _Scenario:
    """The checks of one scenario's fault list."""

    def __init__(
        self,
        tree: Tree,
        path: Path,
        scenario: dict[str, Any],
        target: dict[str, Any],
        catalogue: Mapping[str, Any],
    ) -> None:
        self.tree, self.path, self.target, self.catalogue = tree, path, target, catalogue
        self.entries = [e if isinstance(e, dict) else {} for e in _list(scenario.get("faults"))]
        self.ids = [e["id"] for e in self.entries if isinstance(e.get("id"), str)]

    def problems(self) -> list[Problem]:
        return [problem for index, entry in enumerate(self.entries) for problem in self._entry(index, entry)]

    def _at(self, path: Path, message: str, mend: str) -> Problem:
        return Problem(self.tree.line(path), path, message, mend)

    def _entry(self, index: int, entry: dict[str, Any]) -> Iterator[Problem]:
        path: Path = (*self.path, "faults", index)
        name = entry.get("fault")
        if isinstance(name, str):
            if name not in self.catalogue:
                close = difflib.get_close_matches(name, list(self.catalogue), n=1, cutoff=0.6)
                mend = f"did you mean {close[0]!r}?" if close else "`torch-chaos list` shows every fault"
                yield self._at((*path, "fault"), f"unknown fault {name!r}", mend)
            else:
                yield from self._parameters(path, entry, self.catalogue[name])
        if self.ids.count(entry.get("id", "")) > 1:
            message = f"the fault id {entry['id']!r} is used more than once"
            yield self._at((*path, "id"), message, "give each fault its own id")
        yield from self._where(path, index, entry)
        yield from self._when(path, index, entry)

    def _parameters(self, path: Path, entry: dict[str, Any], fault: Any) -> Iterator[Problem]:
        given = entry.get("with", {})
        if not isinstance(given, dict):
            return
        known = params_of(fault)
        sound = True
        for key, value in given.items():
            at: Path = (*path, "with", key)
            if key not in known:
                close = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
                allowed = f"its parameters: {', '.join(known)}" if known else "it has no parameters"
                mend = f"did you mean {close[0]!r}?" if close else allowed
                sound = False
                yield self._at(at, f"{fault.id} has no parameter {key!r}", mend)
                continue
            wrong = problem_of(fault, known[key], value)
            if wrong is not None:
                sound = False
                yield self._at(at, *wrong)
        if "for" in entry and "duration_s" not in known:
            message = f"{fault.id} happens at once and has no duration"
            yield self._at((*path, "for"), message, "remove `for:`")
        elif "for" in entry and "duration_s" in given:
            yield self._at(
                (*path, "for"), "the duration is given twice", "keep `for:` and remove `duration_s`"
            )
        elif sound:
            # A missing parameter, or values that contradict each other, show only when all are seen together.
            extra = {"duration_s": entry["for"]} if "for" in entry else {}
            wrong = joint_problem(fault, {**given, **extra})
            if wrong is not None:
                yield self._at((*path, "for") if extra else path, *wrong)

    def _where(self, path: Path, index: int, entry: dict[str, Any]) -> Iterator[Problem]:
        where = entry.get("where")
        if not isinstance(where, dict):
            return
        at: Path = (*path, "where")
        given = [key for key in ("rank", "node", "role") if where.get(key) is not None]
        if len(given) != 1:
            what = f"more than one address: {', '.join(given)}" if given else "no rank, node or role"
            yield self._at(
                at,
                f"the fault has {what}",
                "give one: `{rank: 2}`, `{rank: random}`, `{node: 1}` or `{role: lowest_live}`",
            )
        yield from self._of_nodes(path, entry, where)
        for key, count in (("rank", self.target.get("world")), ("node", self._nodes())):
            yield from self._address(at, index, key, where.get(key), count)

    def _nodes(self) -> int | None:
        cluster = self.target.get("cluster")
        return cluster["nodes"] if isinstance(cluster, dict) else None

    def _of_nodes(self, path: Path, entry: dict[str, Any], where: dict[str, Any]) -> Iterator[Problem]:
        """A fault of nodes needs nodes that can be told apart; a fault of processes names no node."""
        fault = self.catalogue.get(entry.get("fault", ""))
        if fault is None:
            return
        if fault.aims_at == "nodes":
            cluster = self.target.get("cluster")
            if self.target and not (isinstance(cluster, dict) and cluster["kind"] != "local"):
                here = (
                    "all nodes of a `local` cluster are this host" if cluster else "this target has no nodes"
                )
                mend = "add `cluster: {kind: netns, nodes: N}` to the target, or kind docker"
                yield self._at((*path, "fault"), f"{fault.id} acts on nodes, and {here}", mend)
        elif where.get("node") is not None:
            message = f"{fault.id} acts on a process, and a node has several"
            yield self._at((*path, "where", "node"), message, "name a rank or a role")

    def _address(self, at: Path, index: int, key: str, value: Any, count: Any) -> Iterator[Problem]:
        known = isinstance(count, int) and count > 0
        whole = "world" if key == "rank" else "cluster"
        if isinstance(value, int) and known and value >= count:
            message = f"{key} {value} is not in a {whole} of {count}"
            yield self._at((*at, key), message, f"use a {key} from 0 to {count - 1}")
        if value == "other" and index == 0:
            message = "`other` needs a fault before it"
            yield self._at((*at, key), message, "use `random` for the first fault")
        if value == "other" and count == 1:
            message = f"`other` needs a second {key}, the {whole} is 1"
            yield self._at((*at, key), message, "use `random`")

    def _when(self, path: Path, index: int, entry: dict[str, Any]) -> Iterator[Problem]:
        when = entry.get("when")
        if not isinstance(when, dict):
            return
        at: Path = (*path, "when")
        moments = [k for k in ("step", "phase", "collective", "event", "after_s") if when.get(k) is not None]
        if not moments:
            yield self._at(at, "the fault has no moment", "give a step, phase, collective, event or after_s")
        yield from self._word(at, when, "phase", (*PHASES, "random"))
        yield from self._word(at, when, "event", EVENTS)
        if isinstance(when.get("collective"), dict):
            yield from self._word((*at, "collective"), when["collective"], "op", OPS)
            if when.get("event") is not None:
                yield self._at(at, "`collective` and `event` exclude each other", "keep one of them")
        # A step that never comes is no mistake of the file: the run says so, and is inconclusive.
        earlier = [e["id"] for e in self.entries[:index] if isinstance(e.get("id"), str)]
        after = when.get("after_fault")
        if isinstance(after, str) and after not in earlier:
            known = f"ids above it: {', '.join(earlier)}" if earlier else "give the fault before it an `id:`"
            yield self._at((*at, "after_fault"), f"there is no fault {after!r} before this one", known)
        if after is not None and moments != ["after_s"]:
            yield self._at(
                at, "`after_fault` goes with `after_s` alone", "write {after_fault: ID, after_s: 50ms}"
            )
        if when.get("after_s") is not None and moments != ["after_s"]:
            message = f"`after_s` cannot be combined with {', '.join(m for m in moments if m != 'after_s')}"
            yield self._at((*at, "after_s"), message, "keep one of them")
        yield from self._reachable(at, entry, moments)

    def _word(self, at: Path, when: dict[str, Any], key: str, known: tuple[str, ...]) -> Iterator[Problem]:
        word = when.get(key)
        if isinstance(word, str) and word not in known:
            close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
            mend = f"did you mean {close[0]!r}?" if close else f"one of: {', '.join(known)}"
            yield self._at((*at, key), f"unknown {key} {word!r}", mend)

    def _reachable(self, at: Path, entry: dict[str, Any], moments: list[str]) -> Iterator[Problem]:
        """A fault that acts inside the victim needs the agent to stand at its point; a time comes from
        outside."""
        fault = self.catalogue.get(entry.get("fault", ""))
        if fault is not None and fault.inside and moments == ["after_s"]:
            message = f"{fault.id} acts inside the process and cannot be placed by a time"
            yield self._at((*at, "after_s"), message, "place it by step, phase, collective or event")
