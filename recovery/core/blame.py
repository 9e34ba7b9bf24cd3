"""Who is late, who is out of step: a pure reading of the members' progress counters.

The rank that is blamed is the one that has not arrived at the collective the others wait in, never the
one that waits. Time that a rank spent runnable but without a core does not count against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recovery.core.config import Config

SETTLED_S = 0.25
"""Counters that have not moved for this long are not just being written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One member's counters, as read from the shared page. Times are monotonic seconds."""

    rank: int
    proc: int
    generation: int
    version: int
    warm: bool
    issued: int
    """Collectives that it has entered in this generation."""
    done: int
    issued_at: float
    changed_at: float
    """Its last sign of life (a collective entered or left, a step begun or committed)."""
    busy_until: float
    starved_s: float
    """How long since `changed_at` it stood in the run queue without a core."""
    common_chain: int
    """Its fingerprint at the highest collective that every member has entered."""
    sealing: bool = False
    """It has finished its step and waits for the others' word that they ran the same sequence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An accusation. `proc` is None when everyone arrived and nobody can be named."""

    rank: int | None
    proc: int | None
    kind: str
    detail: str
    since: float | None


def odd_one_out(chains: Mapping[int, int | None], other: int) -> int | None:
    """Which rank ran another sequence, given each one's fingerprint where the caller and `other` differ.

    None if no majority says so. A rank whose fingerprint is not known does not vote.
    """
    known = {rank: chain for rank, chain in chains.items() if chain is not None}
    majority, votes = Counter(known.values()).most_common(1)[0]
    odd = next((rank for rank, chain in known.items() if chain != majority), other)
    return odd if votes * 2 > len(known) else None


def judge(members: Sequence[Progress], config: Config, step_s: float | None, now: float) -> Verdict | None:
    """The first accusation that the counters support, or None.

    Only members of one generation may be passed.
    """
    if len(members) < 2:
        return None
    return _out_of_step(members) or _ended_short(members, now) or _late(members, config, step_s, now)


def _out_of_step(members: Sequence[Progress]) -> Verdict | None:
    chains = Counter(member.common_chain for member in members)
    if len(chains) == 1:
        return None
    common = min(member.issued for member in members)
    majority, votes = chains.most_common(1)[0]
    if votes * 2 <= len(members):
        detail = f"no two halves agree on the sequence up to collective {common}"
        return Verdict(None, None, "desync", detail, None)
    odd = next(member for member in members if member.common_chain != majority)
    detail = f"rank {odd.rank} entered another collective than the others as its number {common}"
    return Verdict(odd.rank, odd.proc, "desync", detail, odd.changed_at)


def _ended_short(members: Sequence[Progress], now: float) -> Verdict | None:
    """A rank that has ended its step while others, in the same step, are in a collective it never entered.

    It will not come to that collective, so there is nothing to wait for. Who is ahead because it has
    committed the step is no witness: the rank may only not yet have seen that its wait is over.
    """
    for member in members:
        if not member.sealing:
            continue
        inside = [m for m in members if m.issued > member.issued and m.version <= member.version]
        if inside and now - max(min(m.issued_at for m in inside), member.changed_at) > SETTLED_S:
            detail = (
                f"rank {member.rank} ended its step after {member.issued} collectives,"
                f" others wait in their number {max(m.issued for m in inside)}"
            )
            return Verdict(member.rank, member.proc, "desync", detail, member.changed_at)
    return None


def _late(members: Sequence[Progress], config: Config, step_s: float | None, now: float) -> Verdict | None:
    furthest = max(member.issued for member in members)
    least = min(member.issued for member in members)
    leaders = [member for member in members if member.issued == furthest]
    # Whoever has entered more collectives than the last one may be waiting for the last one.
    behind = [member for member in members if member.issued == least < furthest]
    if behind:
        waiting_since = min(member.issued_at for member in leaders)
        done = f"entered {least} of {furthest} collectives"
        return _latest(behind, waiting_since, done, config, step_s, now)
    sealing = [member for member in members if member.sealing]
    if sealing:
        # All have entered the same collectives, and some have ended the step and wait for the others to.
        waiting_since = min(member.changed_at for member in sealing)
        version = min(member.version for member in sealing)
        short = [m for m in members if not m.sealing and m.done == m.issued and m.version <= version]
        done = f"has not ended its step after {furthest} collectives"
        late = _latest(short, waiting_since, done, config, step_s, now)
        if late is not None:
            return late
    if sealing or any(member.done < member.issued for member in members):
        # Everyone is inside: a network or kernel that does not deliver. Give it longer, then regroup.
        limit = 3 * max(config.hang_limit_s(step_s, member.warm) for member in members)
        quiet_s = now - max(member.changed_at for member in members)
        if quiet_s > limit and all(now > member.busy_until for member in members):
            detail = f"all ranks are inside collective {furthest} for {quiet_s:.2f} s"
            return Verdict(None, None, "hang", detail, None)
    return None


def _latest(
    members: Sequence[Progress],
    waiting_since: float,
    done: str,
    config: Config,
    step_s: float | None,
    now: float,
) -> Verdict | None:
    """The one that has given no sign of life for longest, if it is late beyond its limit and has not said
    that it is busy. The others wait since `waiting_since`; `done` says in words how far it has come."""
    for member in sorted(members, key=lambda one: one.changed_at):
        limit = config.hang_limit_s(step_s, member.warm)
        late_s = now - max(waiting_since, member.changed_at) - member.starved_s
        if late_s > limit and now > member.busy_until:
            detail = f"{done} in generation {member.generation}, {late_s:.2f} s late (limit {limit:.2f} s)"
            return Verdict(member.rank, member.proc, "hang", detail, member.changed_at)
    return None
