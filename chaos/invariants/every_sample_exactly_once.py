"""Every sample is used exactly once, in the twin's order, whatever was replayed."""

from __future__ import annotations

from collections import Counter

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, not_applicable, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene

Samples = dict[tuple[int, int], list[str]]


@invariant(needs=["step.commit"], needs_twin=True, sources=["I-DATA", "I-BATCH"])
def every_sample_exactly_once(history: History, reference: History | None, scene: Scene) -> Finding:
    """``notes.samples`` of each (step, rank) are the twin's, in order; each step's multiset too.

    The order is compared exactly. A step that a rank only adopted carries no samples of that rank: its
    state vouches for them (`state_equals_twin`); such pairs are counted in the detail.

    Smallest break: a replayed step that takes the next batch instead of its own.
    """
    assert reference is not None
    right, _ = _samples(reference, Offences())
    offences = Offences()
    used, adopted = _samples(history, offences)
    if not right or not used:
        if not right and not used:
            return not_applicable("neither run notes its samples (run.note(samples=...))")
        return too_thin("only one of the run and its twin notes samples")
    for (step, rank), samples in sorted(used.items()):
        expected = right.get((step, rank))
        if expected is not None and samples != expected:
            offences.add(
                f"step {step} rank {rank}: samples {_show(samples)}, twin {_show(expected)}",
                weight=sum((Counter(samples) - Counter(expected)).values()),
            )
    _judge_multisets(used, right, offences)
    if offences:
        return offences.finding()
    committed = {(commit.step, commit.rank) for commit in history.commits()}
    silent = sorted(committed - set(used) - adopted)
    if silent:
        step, rank = silent[0]
        return too_thin(f"{len(silent)} commits note no samples, first step {step} rank {rank}")
    unknown = sorted(set(used) - set(right))
    if unknown:
        return too_thin(f"the twin notes no samples for step {unknown[0][0]} rank {unknown[0][1]}")
    beside = f"; {len(adopted - set(used))} adopted without" if adopted - set(used) else ""
    return held(f"samples of {len(used)} commits equal the twin's{beside}")


def _samples(history: History, offences: Offences) -> tuple[Samples, set[tuple[int, int]]]:
    """Samples per (step, rank), and the addresses that were adopted. A second, other list offends."""
    found: Samples = {}
    adopted = set()
    for commit in history.commits():
        address = commit.step, commit.rank
        if commit.adopted:
            adopted.add(address)
        noted = commit.notes.get("samples")
        if not isinstance(noted, (list, tuple)):
            continue
        samples = [str(sample) for sample in noted]
        if found.setdefault(address, samples) != samples:
            offences.add(
                f"{commit.where}: committed again with samples {_show(samples)}, was {_show(found[address])}",
                weight=len(samples),
            )
    return found, adopted


def _judge_multisets(used: Samples, right: Samples, offences: Offences) -> None:
    """Per step, over all ranks: nothing twice and nothing left out. Only where all ranks noted."""
    for step in sorted({step for step, _ in used}):
        ranks = {rank for other, rank in right if other == step}
        if not ranks or any((step, rank) not in used for rank in ranks):
            continue
        got = Counter(sample for rank in ranks for sample in used[step, rank])
        wanted = Counter(sample for rank in ranks for sample in right[step, rank])
        extra, missing = got - wanted, wanted - got
        if extra or missing:
            offences.add(
                f"step {step}, all ranks: {sum(extra.values())} samples too often, "
                f"{sum(missing.values())} missing",
                weight=sum(extra.values()),
            )


def _show(samples: list[str]) -> str:
    shown = ", ".join(samples[:4])
    return f"[{shown}, ... {len(samples)} in all]" if len(samples) > 4 else f"[{shown}]"
