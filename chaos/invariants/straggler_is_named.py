"""A rank that holds the others up is named, and not taken for another."""

from __future__ import annotations

from collections import defaultdict

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import float_of, int_of, time_of


@invariant(needs=["step.commit"], sources=["I-NAME"])
def straggler_is_named(history: History, reference: History | None, scene: Scene) -> Finding:
    """Where the scenario says so (``expect: {straggler: true}``), the slowed rank is named before any other.

    The runtime may name others too, on a busy machine; but the rank that the faults slow down is the one that
    was late for the longest time.

    Smallest break: rank 2 comes late ten times and nobody is named, or rank 1 is.
    """
    if not scene.straggler:
        return not_applicable("the scenario slows no rank down for long")
    if not scene.shows_runtime_events:
        return not_applicable(f"a {scene.kind} target names no stragglers")
    fired = [
        trail for trail in history.faults.values() if trail.fired_t is not None and trail.rank is not None
    ]
    if not fired:
        return too_thin("no fault fired")
    slowed = {trail.rank for trail in fired}
    since = min(trail.fired_t for trail in fired if trail.fired_t is not None)
    late: dict[int, float] = defaultdict(float)
    for event in history.of("straggler"):
        rank, late_s = int_of(event, "rank"), float_of(event, "late_s")
        if rank is not None and late_s is not None and time_of(event) >= since:
            # A bout is told several times, each time with all of it so far.
            late[rank] = max(late[rank], late_s)
    offences = Offences()
    said = ", ".join(f"rank {rank}" for rank in sorted(r for r in slowed if r is not None))
    if not late:
        offences.add(f"{said} was slowed down, and nobody was named")
    elif max(late, key=lambda rank: late[rank]) not in slowed:
        worst = max(late, key=lambda rank: late[rank])
        offences.add(f"{said} was slowed down, and rank {worst} was named ({late[worst]:.1f} s late in all)")
    return offences.finding_or(held(f"{said} was named"))
