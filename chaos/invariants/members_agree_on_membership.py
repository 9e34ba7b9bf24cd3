"""All members of a generation are the invited ones, one for each logical rank."""

from __future__ import annotations

from collections import Counter

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Generation


@invariant(needs=["generation.open"], sources=["I-MEMBER", "I-QUORUM", "I-IDENT"])
def members_agree_on_membership(history: History, reference: History | None, scene: Scene) -> Finding:
    """A generation that commits was entered by exactly the invited (rank, pid) pairs, all ranks once.

    A generation that never commits (a fault struck while it formed) may be entered in part. Generation
    numbers only grow.

    Smallest break: a process enters a generation to which it was not invited.
    """
    offences = Offences()
    committing = {commit.generation for commit in history.commits() if not commit.adopted}
    blind = 0
    latest_t = float("-inf")
    for number, generation in history.generations.items():
        if generation.t is None:
            offences.add(f"generation {number} was entered but never opened")
            continue
        if generation.t < latest_t:
            offences.add(f"generation {number} was opened before an earlier one")
        latest_t = generation.t
        for line in _offences(generation, number in committing, scene.world):
            offences.add(f"generation {number}: {line}")
        blind += number in committing and not generation.formed
    if offences:
        return offences.finding()
    if blind:
        return too_thin(f"{blind} generations committed, and no member said that it entered")
    return held(f"{len(history.generations)} generations entered as invited")


def _offences(generation: Generation, commits: bool, world: int | None) -> list[str]:
    lines = []
    ranks = Counter(rank for rank, _ in generation.members)
    pids = Counter(pid for _, pid in generation.members if pid is not None)
    lines += [f"rank {rank} was given to {count} processes" for rank, count in ranks.items() if count > 1]
    lines += [f"pid {pid} was given {count} ranks" for pid, count in pids.items() if count > 1]
    invited = dict(generation.members)
    for formed in generation.formed:
        if formed.rank not in invited:
            lines.append(f"rank {formed.rank} (pid {formed.pid}) entered without an invitation")
        elif formed.pid is not None and invited[formed.rank] not in (None, formed.pid):
            lines.append(
                f"rank {formed.rank} was entered by pid {formed.pid}, invited was pid {invited[formed.rank]}"
            )
    if commits and generation.formed:
        absent = sorted(set(invited) - {formed.rank for formed in generation.formed})
        if absent:
            lines.append(f"committed although rank {absent[0]} had not entered")
    if commits and world is not None and set(ranks) != set(range(world)):
        lines.append(f"committed with ranks {sorted(ranks)} of a world of {world}")
    return lines
