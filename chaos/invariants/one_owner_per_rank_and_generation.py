"""At most one process acts for a logical rank in a generation."""

from __future__ import annotations

from collections import defaultdict

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import int_of, time_of

ACTIONS = ("step.begin", "step.commit", "generation.formed")


@invariant(needs=["step.commit", "generation.open"], sources=["I-FENCE", "I-GEN"])
def one_owner_per_rank_and_generation(history: History, reference: History | None, scene: Scene) -> Finding:
    """One pid per (rank, generation), the invited one; and a fenced process does nothing any more.

    Smallest break: two processes commit for one rank in one generation.
    """
    offences = Offences()
    fenced: dict[int, float] = {}
    for event in history.of("fence"):
        pid = int_of(event, "pid")
        if pid is not None:
            fenced.setdefault(pid, time_of(event))
    invited = {
        (rank, number): pid
        for number, generation in history.generations.items()
        for rank, pid in generation.members
        if pid is not None
    }
    owners: dict[tuple[int, int], int] = dict(invited)
    reported: set[tuple[int, int, int]] = set()
    count: dict[tuple[int, int], int] = defaultdict(int)
    for event in history.of(*ACTIONS):
        rank, generation, pid = int_of(event, "rank"), int_of(event, "generation"), int_of(event, "pid")
        if rank is None or generation is None or pid is None:
            continue
        owner = owners.setdefault((rank, generation), pid)
        count[rank, generation] += 1
        key = (rank, generation, pid)
        if owner != pid and key not in reported:
            reported.add(key)
            offences.add(f"rank {rank} generation {generation}: pid {pid} acts, the owner is pid {owner}")
        elif pid in fenced and time_of(event) > fenced[pid] and key not in reported:
            reported.add(key)
            offences.add(
                f"rank {rank} generation {generation}: pid {pid} acts "
                f"{time_of(event) - fenced[pid]:.3f} s after it was fenced"
            )
    return offences.finding_or(held(f"{len(count)} (rank, generation) pairs, one owner each"))
