"""After the run nothing of it is left, and during it nothing piles up."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held
from chaos.invariants.growth import by_process, growth
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import list_of

PLACES = ("processes", "shm", "sockets", "files", "nodes")
# Generations that a process needs to settle (allocator arenas, lazy imports, DDP's first buckets).
WARM_UP = 3
# Below this many generations of one process a slope says nothing.
MIN_SPAN = 6


@dataclass(frozen=True)
class Limit:
    """How much a figure may grow: per generation, and altogether over the generations seen."""

    name: str
    per_generation: float
    altogether: float


# One descriptor or thread in 20 generations is a leak, if at least two have piled up. Memory: a leaked
# gradient bucket or shadow of the smallest workload is over 1 MB a generation; the allocator's own creep
# was 81 KiB a generation over 100 recoveries of tiny_gpt, and came to rest.
LIMITS = (Limit("fds", 0.05, 2), Limit("threads", 0.05, 2), Limit("rss_bytes", 256 * 1024, 8 * 1024**2))


@invariant(needs=["leak.check"], needs_job=False, sources=["I-NOLEAK", "I-NOZOMBIE", "I-REINIT"])
def nothing_left_over(history: History, reference: History | None, scene: Scene) -> Finding:
    """The leak check found nothing, no orphan was seen, and members stay flat over generations.

    Flat: the slope of open descriptors, threads and resident memory per generation, pooled over
    processes (see `growth`), is at most 0.05, 0.05 and 256 KiB, or adds up to less than 2, 2 and 8 MiB.
    Each process's first 3 generations are warm-up; fewer than 6 further ones are not judged. The same
    test runs over the first entry of each new process: what its template collects.

    Smallest break: a leak check that names a process.
    """
    offences = Offences()
    for event in history.of("leak.check"):
        for place in PLACES:
            for item in list_of(event, place):
                offences.add(f"left over in {place}: {_show(item)}", weight=place == "processes")
    for event in history.of("orphan.seen"):
        offences.add(f"orphan: pid {event.get('pid')} {event.get('argv') or ''}".rstrip(), weight=1.0)
    span = max(_judge_growth(history, limit, offences) for limit in LIMITS)
    grown = f"flat over {span} generations" if span >= MIN_SPAN else "too few generations to judge growth"
    return offences.finding_or(held(f"nothing left; {grown}"))


def _judge_growth(history: History, limit: Limit, offences: Offences) -> int:
    """Judge one figure. Returns the number of generations over which it was seen."""
    points = [
        (formed.pid, formed.generation, float(value))
        for generation in history.generations.values()
        for formed in generation.formed
        if formed.pid is not None and (value := getattr(formed, limit.name)) is not None
    ]
    lives = by_process(points)
    within = growth(points[WARM_UP:] for points in lives.values())
    # The job's first members were not made from a template that had served anyone yet.
    births = sorted(points[0] for points in lives.values())
    between = growth([[point for point in births if point[0] > births[0][0]]]) if births else growth([])
    for label, found in (("a process", within), ("each new process", between)):
        if (
            found.span >= MIN_SPAN
            and found.slope > limit.per_generation
            and found.slope * found.span >= limit.altogether
        ):
            offences.add(
                f"{limit.name} of {label} grow by {found.slope:.4g} per generation "
                f"over {found.span} generations"
            )
    return max(within.span, between.span)


def _show(item: object) -> str:
    if isinstance(item, dict):
        return " ".join(f"{key}={value}" for key, value in item.items())
    return str(item)
