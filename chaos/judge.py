"""From a history, its twin and the plan's scenario to one verdict, and from verdicts to an exit code.

Rules kept here:

- VIOLATED outranks INCONCLUSIVE, which outranks PASS. One violated invariant is enough.
- A check that crashed proves nothing: it is INCONCLUSIVE, and says what it raised.
- ERROR is for a scenario in which nothing was tested: the target never started or never made a step.
- The judge starts nothing and reads no file: a stored history can be judged again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.history import History
from chaos.invariants.finding import Finding, Verdict
from chaos.records import Recovery


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """One planned fault and what became of it. `recover_s`: fired to the next job commit, seconds."""

    id: str
    name: str
    where: Mapping[str, object]
    when: Mapping[str, object]
    fired: bool
    verified: bool
    undone: bool
    undo_verified: bool
    evidence: Mapping[str, object]
    rank: int | None = None
    step: int | None = None
    recover_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScenarioVerdict:
    """The judgement of one scenario.

    Attributes:
        verdict: PASS, VIOLATED, INCONCLUSIVE or ERROR.
        expected: what the scenario states, e.g. ``PASS`` or ``VIOLATED by replicas_agree``.
        as_expected: whether verdict (and the violated invariants) are what it states.
        reason: one line: the first evidence.
        step_s: median time between a rank's commits in undisturbed stretches, seconds.
    """

    name: str
    seed: int | None
    verdict: Verdict
    expected: str
    as_expected: bool
    reason: str
    findings: tuple[Finding, ...] = ()
    faults: tuple[FaultOutcome, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    step_s: float | None = None
    wall_s: float | None = None


def judge(
    history: History,
    reference: History | None,
    scenario: Mapping[str, object],
    *,
    error: str | None = None,
) -> ScenarioVerdict:
    """Judge one scenario.

    Args:
        history: what happened.
        reference: the fault-free twin's history; None if there is none.
        scenario: the plan's scenario (plain data).
        error: set by the engine when it could not run the scenario; makes the verdict ERROR.
    """
    raise NotImplementedError


def exit_code(
    results: Sequence[ScenarioVerdict],
    *,
    leftovers: bool = False,
    interrupted: bool = False,
    errors: bool = False,
) -> int:
    """The process exit code of a run.

    Order: 3 (clean-up incomplete, whatever else happened), 130 (interrupted and rolled back),
    1 (an invariant was violated, or a scenario did not end as it states), 70 (the tool itself
    failed), 2 (inconclusive, or a target that never ran), 0.

    Args:
        results: the judged scenarios. One that ended as it states counts as passed.
        leftovers: something of a run could not be cleaned up.
        interrupted: the user stopped the run.
        errors: the tool itself failed somewhere (internal error).
    """
    raise NotImplementedError
