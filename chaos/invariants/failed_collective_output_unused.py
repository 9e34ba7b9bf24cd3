"""What a failed collective left in its buffer is never used."""

from __future__ import annotations

from collections import defaultdict

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import Commit, Event, int_of, time_of

Moments = dict[tuple[int | None, int | None], list[tuple[float, int | None]]]


@invariant(needs=["step.commit", "step.begin"], sources=["I-DISCARD", "I-GEN"])
def failed_collective_output_unused(history: History, reference: History | None, scene: Scene) -> Finding:
    """No commit of a step in a generation in which it failed or could not have run.

    - After a ``step.rollback`` that process does not commit that step in the same generation.
    - A process that entered a newer generation commits nothing in an older one.
    - A process whose group was released does not begin *and* commit a step in that generation. (A step
      begun before the release may commit: its collectives may all have completed.)

    Smallest break: a process rolls a step back and commits it in the same generation.
    """
    rolled = _moments(history.of("step.rollback"))
    released = _moments(history.of("group.release"))
    begun = _moments(history.of("step.begin"))
    entered = _moments(history.of("generation.formed"))
    offences = Offences()
    for commit in history.commits():
        if not commit.adopted:
            for line in _offences(commit, rolled, released, begun, entered):
                offences.add(f"{commit.where}: {line}")
    count = len(history.of("step.rollback"))
    return offences.finding_or(held(f"{count} rolled back steps, none used"))


def _moments(events: tuple[Event, ...]) -> Moments:
    """(time, step) per (pid, generation)."""
    found: Moments = defaultdict(list)
    for event in events:
        here = int_of(event, "pid"), int_of(event, "generation")
        found[here].append((time_of(event), int_of(event, "step")))
    return found


def _offences(
    commit: Commit, rolled: Moments, released: Moments, begun: Moments, entered: Moments
) -> list[str]:
    here = commit.pid, commit.generation
    lines = []
    if any(t <= commit.t and step == commit.step for t, step in rolled.get(here, ())):
        lines.append("committed after it was rolled back in the same generation")
    release_t = min((t for t, _ in released.get(here, ()) if t <= commit.t), default=None)
    begin_t = max(
        (t for t, step in begun.get(here, ()) if step == commit.step and t <= commit.t), default=None
    )
    if release_t is not None and begin_t is not None and begin_t > release_t:
        lines.append(f"begun {begin_t - release_t:.3f} s after the generation's group was released")
    newer = [
        generation
        for (pid, generation), moments in entered.items()
        if pid == commit.pid
        and generation is not None
        and commit.generation is not None
        and generation > commit.generation
        and moments[0][0] < commit.t
    ]
    if newer:
        lines.append(f"committed after the process entered generation {min(newer)}")
    return lines
