"""`fuzz`: plans drawn from what a suite names, run until the time is up."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import chaos
from chaos.cli import times
from chaos.cli.doctor import ladders
from chaos.clusters.make import PROBES
from chaos.errors import Exit, UserError
from chaos.fuzz import seen as seens
from chaos.fuzz import text
from chaos.fuzz.asked import Asked, named_faults, named_phases
from chaos.fuzz.build import space_of
from chaos.fuzz.draw import draw
from chaos.fuzz.log import Log
from chaos.fuzz.planned import plan_of
from chaos.fuzz.seen import Round, Seen
from chaos.fuzz.session import FINDINGS, Search
from chaos.fuzz.shrinking import Shrinker
from chaos.fuzz.space import Job, Space
from chaos.plan import Facts, matches
from chaos.runner import facts, preflight
from chaos.runner.interrupt import Interrupted, Interrupts
from chaos.suite import find, load
from chaos.suite.load import Loaded
from chaos.targets.paths import folder_of
from chaos.testing.bench import Bench
from chaos.testing.repeats import Repeats
from injectors.catalogue import CATALOGUE

HOME = Path("reports/fuzz")
WORK = "work"
TIME = "30m"
DEFAULT_S = 600.0
UNTESTED = 3
"""Rounds in a row in which the job made no step and no fault struck: then it is the job that does not run."""


@dataclass(frozen=True)
class Wanted:
    """What to search and how long, as given on the command line. Without a time or a number of rounds, ten
    minutes."""

    suite: str
    for_: str | None = None
    rounds: int | None = None
    seed: int | None = None
    faults: str = ""
    phases: str = ""
    only: str | None = None
    most: int | None = None
    repeats: str = "2/3"
    shrink_budget: str = "3m"
    stop_at_first: bool = False
    out: Path | None = None


@dataclass(frozen=True)
class Limits:
    """When to stop: a number of rounds of this start, a moment, or the first finding."""

    rounds: int | None
    until: float
    stop_at_first: bool

    def allow(self, rounds: list[Round]) -> bool:
        """Whether another round may begin, after these of the present start."""
        if self.stop_at_first and any(one.found for one in rounds):
            return False
        if self.rounds is not None and len(rounds) >= self.rounds:
            return False
        return time.monotonic() < self.until


def fuzz(wanted: Wanted) -> int:
    """Search; returns 1 if a failure was found, 2 if there is a flaky one or no plan held, else 0.

    Raises:
        UserError: something is wrong with the suite or an option, or nothing of it can run here.
    """
    limits = _limits(wanted)
    budget_s = times.seconds("--shrink-budget", wanted.shrink_budget, TIME)
    repeats = _repeats(wanted)
    loaded = load(wanted.suite, CATALOGUE)
    known = facts.for_plan(find(wanted.suite), [*loaded.targets])
    space = _space(wanted, loaded, known)
    folder = wanted.out or HOME / loaded.suite.suite
    with Log(folder) as log:
        seed = _begin(log, wanted, loaded, space)
        bench = Bench(folder / WORK, shlex.join(["torch-chaos", *sys.argv[1:]]))
        with Interrupts() as interrupts:
            shrinker = Shrinker(bench, budget_s, limits.until, lambda: interrupts.seen is not None)
            search = Search(
                space,
                seed,
                log,
                lambda drawn: plan_of(loaded.suite.suite, seed, drawn, known, CATALOGUE),
                bench.run,
                shrinker,
                repeats,
                dropped=frozenset(
                    one.found.id
                    for one in log.rounds
                    if one.found and not (folder / FINDINGS / one.found.id).is_dir()
                ),
                held=interrupts.held,
            )
            search.say = lambda one: print(text.round_line(one, search.seen, space), flush=True)
            code, left = _run(search, limits, bench, interrupts)
    print("\n".join(text.closing(space, search.seen, str(folder), _flaky(log.rounds))))
    for line in left:
        print(f"LEFT OVER: {line}")
    if left:
        return int(Exit.LEFTOVERS)
    return int(code if code is not None else code_of(search.seen))


def _run(
    search: Search, limits: Limits, bench: Bench, interrupts: Interrupts
) -> tuple[Exit | None, list[str]]:
    """Run rounds; returns the exit code if it is decided already, and what could not be cleaned up."""
    before, code, left = len(search.log.rounds), None, list[str]()
    try:
        search.go(lambda seen: limits.allow(search.log.rounds[before:]) and not _never_runs(search, before))
        if _never_runs(search, before):
            print(f"torch-chaos: the job does not run: {search.log.rounds[-1].reason}", file=sys.stderr)
            code = Exit.INCONCLUSIVE
    except Interrupted:
        print(
            f"interrupted; all that was found so far is in {search.log.folder}, and the same command goes on"
        )
        code = Exit.INTERRUPTED
    finally:
        with interrupts.held():
            left = bench.close()
            if not left:
                _tidied(bench.home)
    return code, left


def _tidied(work: Path) -> None:
    """Remove what a search needs only while it runs; not what one that was killed has left to be undone."""
    earlier = list(work.glob("earlier-*"))
    for path in work.glob("*") if earlier else [work]:
        if path not in earlier:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def code_of(seen: Seen) -> Exit:
    """What the search says in its exit status."""
    if seen.found:
        return Exit.VIOLATED
    nothing_held = seen.rounds > 0 and not seen.categories[seens.PASS]
    return Exit.INCONCLUSIVE if seen.categories[seens.FLAKY] or nothing_held else Exit.PASSED


def _never_runs(search: Search, before: int) -> bool:
    last = search.log.rounds[before:][-UNTESTED:]
    return len(last) == UNTESTED and all(one.untested for one in last)


def _flaky(rounds: list[Round]) -> list[Round]:
    return [one for one in rounds if one.category == seens.FLAKY]


# -- what is given


def _limits(wanted: Wanted) -> Limits:
    if wanted.for_ is None and wanted.rounds is not None:
        return Limits(wanted.rounds, float("inf"), wanted.stop_at_first)
    length_s = DEFAULT_S if wanted.for_ is None else times.seconds("--for", wanted.for_, TIME)
    return Limits(wanted.rounds, time.monotonic() + length_s, wanted.stop_at_first)


def _repeats(wanted: Wanted) -> Repeats:
    k, _, n = wanted.repeats.partition("/")
    try:
        return Repeats(int(k), int(n))
    except ValueError as error:
        raise UserError(f"--repeats: {wanted.repeats!r}: {error}", "write K/N, for example 2/3") from None


def _space(wanted: Wanted, loaded: Loaded, known: Facts) -> Space:
    """The space, without what this machine can't do."""
    asked = Asked(named_faults(wanted.faults, CATALOGUE), named_phases(wanted.phases), wanted.most)
    only = wanted.only
    space = space_of(
        loaded,
        CATALOGUE,
        asked,
        only=lambda name: only is None or matches(name, only),
        why_not=_why_not(),
    )
    jobs: list[Job] = []
    left = list(space.left_out)
    for job in space.jobs:
        why = _refused(replace(space, jobs=(job,)), known)
        if why is None:
            jobs.append(job)
        else:
            left.append(f"{job.name}: {why}")
    if not jobs:
        raise UserError(
            f"{loaded.file}: no job of it can run here: {'; '.join(left)}", "see `torch-chaos doctor`"
        )
    return Space(space.suite, tuple(jobs), tuple(left))


def _why_not() -> Callable[[str], str | None]:
    """Why a fault can't be brought about here; each is tried once."""
    tried: dict[str, str | None] = {}

    def why(name: str) -> str | None:
        if name not in tried:
            (ladder,) = ladders({name: CATALOGUE[name]})
            works = ladder.taken is not None or not ladder.rungs
            tried[name] = None if works else str(ladder.rungs[0].missing)
        return tried[name]

    return why


def _refused(space: Space, known: Facts) -> str | None:
    """Why a job can't be run here; None if it can."""
    (job,) = space.jobs
    cluster = job.target.get("cluster")
    if cluster:
        found = PROBES[cluster["kind"]]()
        if not found.works:
            return f"cluster {cluster['kind']}: {found.detail}; {found.mend}"
    plan = plan_of(space.suite, 0, draw(space, Seen(), 0), known, CATALOGUE)
    try:
        preflight.check(plan, folder_of(plan.folder))
    except UserError as error:
        return str(error)
    return None


def _begin(log: Log, wanted: Wanted, loaded: Loaded, space: Space) -> int:
    """Say what is searched, and note that a search begins here, or goes on; returns its seed.

    Raises:
        UserError: the folder is another suite's search, or has another seed.
    """
    first = log.starts[0] if log.starts else {}
    seed = wanted.seed if wanted.seed is not None else int(first.get("seed", loaded.suite.seed))
    for key, value in (("seed", seed), ("suite", space.suite)):
        if first.get(key, value) != value:
            raise UserError(
                f"{log.folder}: there is a search with {key} {first[key]!r} here, and not {value!r}",
                "give --out another folder, or leave the option away to go on with this one",
            )
    print("\n".join(text.opening(space)))
    if log.cut_off:
        print(f"the last line of {log.folder}/fuzz.jsonl was half written; its round is run again")
    cells = [str(aim) for aim in space.aims]
    if log.starts:
        print(f"going on after round {len(log.rounds)} of {log.folder}, seed {seed}")
        if log.starts[-1].get("cells") != cells:
            print(
                "the suite or the options are not those of the last start: other cells are drawn from now on"
            )
    else:
        print(f"seed {seed}; everything goes to {log.folder}")
    said: dict[str, Any] = {
        "suite": space.suite,
        "seed": seed,
        "torch_chaos": chaos.__version__,
        "cells": cells,
    }
    log.start(said)
    sys.stdout.flush()
    return seed
