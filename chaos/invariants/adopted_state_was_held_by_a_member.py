"""What a rank adopts is what a living member of its generation held."""

from __future__ import annotations

from collections import defaultdict

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.invariants.state_equals_twin import short
from chaos.records import Commit, Event, int_of, text_of, time_of


@invariant(needs=["step.commit", "generation.open"], sources=["I-SOURCE", "I-XFER", "I-FALLBACK"])
def adopted_state_was_held_by_a_member(history: History, reference: History | None, scene: Scene) -> Finding:
    """Each adopted commit equals an earlier commit of that step by a member of the same generation.

    And each received state has the digest that a sender of that generation and version announced; a
    rank that received something unverified commits nothing in that generation.

    Smallest break: a commit marked adopted, of a step that no other process has committed.
    """
    adopted = [commit for commit in history.commits() if commit.adopted]
    receives = history.of("state.receive")
    if not adopted and not receives:
        return not_applicable("no state was adopted")
    offences = Offences()
    bare = sum(_judge_adoption(history, commit, offences) for commit in adopted)
    _judge_transfers(history, receives, offences)
    if offences:
        return offences.finding()
    if bare:
        return too_thin(f"{bare} of {len(adopted)} adopted commits can't be compared: no digest")
    return held(f"{len(adopted)} adopted commits, {len(receives)} transfers")


def _judge_adoption(history: History, commit: Commit, offences: Offences) -> int:
    """Add the offence of one adopted commit, if any. Returns 1 if digests are missing."""
    generation = history.generations.get(commit.generation or 0)
    members = {pid for _, pid in generation.members} if generation else set()
    holders = [
        other
        for other in history.commits_by_step[commit.step]
        if other.t <= commit.t and other.pid != commit.pid and other.pid in members
    ]
    if not holders:
        offences.add(f"{commit.where}: adopted, but no other member had committed it")
        return 0
    digests = {other.digest for other in holders if other.digest}
    if not digests or commit.digest is None:
        return 1
    if commit.digest not in digests:
        offences.add(
            f"{commit.where}: adopted {short(commit.digest)}, members held "
            f"{', '.join(sorted(short(digest) for digest in digests))}"
        )
    return 0


def _judge_transfers(history: History, receives: tuple[Event, ...], offences: Offences) -> None:
    sent: dict[tuple[int | None, int | None], set[str | None]] = defaultdict(set)
    for event in history.of("state.send"):
        sent[int_of(event, "generation"), int_of(event, "version")].add(text_of(event, "digest"))
    for event in receives:
        rank, generation = int_of(event, "rank"), int_of(event, "generation")
        known = sent[generation, int_of(event, "version")] - {None}
        digest = text_of(event, "digest")
        where = f"rank {rank} in generation {generation}"
        if event.get("verified") is True:
            if known and digest is not None and digest not in known:
                offences.add(f"{where}: received {short(digest)}, which no sender announced")
        elif _committed_on_it(history, event):
            offences.add(f"{where}: committed on a transfer that was not verified")


def _committed_on_it(history: History, event: Event) -> bool:
    """Whether the receiver committed in that generation before a verified transfer came."""
    rank, generation = int_of(event, "rank"), int_of(event, "generation")
    commit = next(
        (
            commit
            for commit in history.commits(-1 if rank is None else rank)
            if commit.t >= time_of(event) and commit.generation == generation
        ),
        None,
    )
    if commit is None:
        return False
    return not any(
        other.get("verified") is True
        and int_of(other, "rank") == rank
        and int_of(other, "generation") == generation
        and time_of(event) <= time_of(other) <= commit.t
        for other in history.of("state.receive")
    )
