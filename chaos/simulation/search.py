"""Search for a schedule that breaks the protocol: at random, by priorities, or guided by what is new.

Schedules come in chunks. A chunk is a pure function of (seed, number of the chunk), so the same seed gives
the same schedules with any number of processes, and the first violation is the same one.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from chaos.simulation.coverage import Key
from chaos.simulation.generate import make_fault, make_plan
from chaos.simulation.generate_nodes import NODE_WEIGHTS, make_fleet_plan, make_node_fault
from chaos.simulation.plan import SimPlan
from chaos.simulation.run import SOUND, Outcome, run_plan
from chaos.simulation.world import Machines

CHUNK = 500
MODES = ("mixed", "uniform", "pct", "guided")
CORPUS = 60
"""Plans that a guided chunk keeps, at most."""
NEWEST = 20
"""Of these, the ones that it varies."""
MOST_FAULTS = 8
EVERY_NTH = 4
"""In a mixed search, this one of so many plans is for several nodes."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to search. `world`, `faults` and `hostile` as in `make_plan`.

    Attributes:
        nodes: of each job; 0 for 2 to 5, None for a mixture of one and several.
    """

    seed: int
    mode: str = "mixed"
    world: int | None = None
    faults: int | None = None
    hostile: bool | None = None
    nodes: int | None = None


@dataclass(slots=True)
class Tally:
    """What some schedules have shown."""

    schedules: int = 0
    events: int = 0
    cpu_s: float = 0.0
    ends: Counter[str] = field(default_factory=Counter)
    seen: Counter[Key] = field(default_factory=Counter)
    worlds: Counter[int] = field(default_factory=Counter)
    nodes: Counter[int] = field(default_factory=Counter)
    found: Outcome | None = None
    number: int | None = None
    """Which schedule of the search broke an invariant, from 0."""

    def add(self, other: Tally) -> None:
        """Take in what came after this."""
        if self.found is None and other.found is not None and other.number is not None:
            self.found, self.number = other.found, self.schedules + other.number
        self.schedules += other.schedules
        self.events += other.events
        self.cpu_s += other.cpu_s
        self.ends += other.ends
        self.seen += other.seen
        self.worlds += other.worlds
        self.nodes += other.nodes


def chunk(options: Options, number: int, size: int = CHUNK, machines: Machines = SOUND) -> Tally:
    """Run one chunk, up to its first violation."""
    tally = Tally()
    began = time.process_time()
    for plan, learn in _plans(options, number, size):
        outcome = run_plan(plan, machines, coverage=True)
        tally.schedules += 1
        tally.events += outcome.events
        tally.ends[outcome.reason or "violation"] += 1
        tally.worlds[plan.world] += 1
        tally.nodes[plan.nodes] += 1
        tally.seen.update(outcome.seen)
        if outcome.violation is not None:
            tally.found, tally.number = replace(outcome, seen=frozenset()), tally.schedules - 1
            break
        learn(outcome)
    tally.cpu_s = time.process_time() - began
    return tally


def _plans(options: Options, number: int, size: int) -> Iterator[tuple[SimPlan, Callable[[Outcome], None]]]:
    rng = random.Random(f"torch-chaos search {options.seed} {number}")
    mode = options.mode
    if mode == "mixed":
        mode = "guided" if number % 4 == 3 else "mixed"
    corpus: list[SimPlan] = []
    known: set[Key] = set()
    for nth in range(size):
        seed = (options.seed * 1_000_003 + number) * 1000 + nth
        if mode == "guided" and corpus and rng.random() < 0.6:
            plan = mutate(rng, rng.choice(corpus[-NEWEST:]), seed, options)
        else:
            schedule = mode if mode in ("uniform", "pct") else None
            plan = _fresh(rng, seed, nth, options, schedule)

        def learn(outcome: Outcome, plan: SimPlan = plan) -> None:
            if mode == "guided" and not outcome.seen <= known:
                known.update(outcome.seen)
                corpus.append(plan)
                del corpus[:-CORPUS]

        yield plan, learn


def _fresh(rng: random.Random, seed: int, nth: int, options: Options, schedule: str | None) -> SimPlan:
    world, faults, nodes = options.world, options.faults, options.nodes
    if nodes == 1 or (nodes is None and nth % EVERY_NTH):
        hostile = options.hostile
        return make_plan(rng, seed, world=world, faults=faults, hostile=hostile, schedule=schedule)
    return make_fleet_plan(rng, seed, nodes=nodes or None, world=world, faults=faults, schedule=schedule)


def mutate(rng: random.Random, plan: SimPlan, seed: int, options: Options) -> SimPlan:
    """A plan near one that has met something new."""
    faults = list(plan.faults)
    draw = rng.random()
    if plan.nodes == 1:
        fresh = make_plan(rng, seed, world=plan.world, faults=1, hostile=options.hostile).faults[0]
    else:
        fresh = make_fleet_plan(rng, seed, nodes=plan.nodes, world=plan.world, faults=1).faults[0]
    name_of = f"f{len(faults) + 1}"
    if draw < 0.6 and len(faults) < MOST_FAULTS:
        if rng.random() < 0.4 and faults:
            # Close to what is there already: faults during the recovery from another fault.
            when = {"after_fault": rng.choice(faults).id, "after_s": round(rng.uniform(0.0, 0.2), 4)}
            fresh = replace(fresh, when=when)
        faults.append(replace(fresh, id=name_of))
    elif draw < 0.7 and len(faults) > 3:
        gone = faults.pop(rng.randrange(len(faults)))
        faults = [f for f in faults if f.when.get("after_fault") != gone.id]
    elif faults:
        at = rng.randrange(len(faults))
        name = faults[at].name
        if "node" in faults[at].where and name in NODE_WEIGHTS:
            other = make_node_fault(rng, faults[at].id, name, plan.nodes, plan.steps, 0)
        else:
            other = make_fault(rng, faults[at].id, name, plan.world, plan.steps, 0)
        faults[at] = replace(faults[at], when=other.when, where=other.where)
    return replace(plan, seed=seed, faults=tuple(faults))


def chunks(options: Options, schedules: int | None) -> Iterator[tuple[Options, int, int]]:
    """Arguments of `chunk`, in order; without a number of schedules there is no end."""
    number = 0
    while schedules is None or number * CHUNK < schedules:
        size = CHUNK if schedules is None else min(CHUNK, schedules - number * CHUNK)
        yield options, number, size
        number += 1


def run_chunk(arguments: tuple[Options, int, int]) -> Tally:
    """`chunk`, in the form that a pool of processes calls."""
    return chunk(*arguments)
