"""From a history, its twin and the plan's scenario to one verdict, and from verdicts to an exit code.

Rules kept here:

- VIOLATED outranks INCONCLUSIVE, which outranks PASS. One violated invariant is enough.
- A check that crashed proves nothing: it is INCONCLUSIVE, and says what it raised.
- ERROR is for a scenario in which nothing was tested: the target never started or never made a step.
- The judge starts nothing and reads no file: a stored history can be judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from chaos.history import History
from chaos.invariants import Finding, Invariant, Verdict, catalogue
from chaos.invariants.scene import ATTACHED, PlannedFault, Scene
from chaos.records import Recovery, int_of, list_of, map_of, text_of, time_of


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
    expectation = Expectation.of(scenario)
    scene = _scene(scenario)
    attached = scene is not None and scene.kind == ATTACHED
    error = error or (None if attached else _never_ran(history))
    findings = tuple(_examine(item, history, reference, scenario) for item in catalogue.values())
    verdict = Verdict.ERROR if error is not None else _worst(findings)
    recoveries = history.recoveries(ignore=scene.silent_faults) if scene else history.recoveries()
    return ScenarioVerdict(
        name=text_of(scenario, "name") or "?",
        seed=int_of(scenario, "seed"),
        verdict=verdict,
        expected=str(expectation),
        as_expected=expectation.met(verdict, findings),
        reason=error or _reason(verdict, findings, expectation),
        findings=findings,
        faults=tuple(_outcome(planned, history, recoveries) for planned in (scene.faults if scene else ())),
        recoveries=recoveries,
        step_s=_step_s(history),
        wall_s=_wall_s(history),
    )


@dataclass(frozen=True)
class Expectation:
    """What a scenario says of its own verdict. `also`: further invariants that may be violated."""

    verdict: Verdict = Verdict.PASS
    invariant: str | None = None
    also: frozenset[str] = frozenset()

    @classmethod
    def of(cls, scenario: Mapping[str, object]) -> Expectation:
        """Read ``expect``: absent (PASS), a verdict, or {verdict, invariant, also}."""
        stated = scenario.get("expect")
        if isinstance(stated, str):
            return cls(Verdict(stated))
        stated = map_of(scenario, "expect")
        return cls(
            Verdict(text_of(stated, "verdict") or Verdict.PASS),
            text_of(stated, "invariant"),
            frozenset(str(name) for name in list_of(stated, "also")),
        )

    def met(self, verdict: Verdict, findings: Iterable[Finding]) -> bool:
        """Whether the verdict is the stated one, by the stated invariant and no other."""
        if verdict != self.verdict:
            return False
        if self.invariant is None or verdict != Verdict.VIOLATED:
            return True
        violated = {finding.name for finding in findings if finding.verdict == Verdict.VIOLATED}
        return self.invariant in violated and violated <= {self.invariant} | self.also

    def __str__(self) -> str:
        return f"{self.verdict} by {self.invariant}" if self.invariant else str(self.verdict)


def _examine(
    item: Invariant, history: History, reference: History | None, scenario: Mapping[str, object]
) -> Finding:
    try:
        return item(history, reference, scenario)
    except Exception as problem:  # a crashed check proves nothing, and must not hide the other ones
        return Finding(item.name, Verdict.INCONCLUSIVE, f"the check crashed: {problem!r}")


def _scene(scenario: Mapping[str, object]) -> Scene | None:
    """The scenario as the invariants see it; None if it can't be read (every finding says so then)."""
    try:
        return Scene.of(scenario)
    except LookupError:
        return None


def _never_ran(history: History) -> str | None:
    """Why nothing was tested, or None: no process, or neither a step nor a fault."""
    if history.commits() or any(fault.fired_t is not None for fault in history.faults.values()):
        return None
    ends = history.of("job.end")
    said = " ".join(filter(None, (text_of(ends[-1], "reason"), text_of(ends[-1], "detail")))) if ends else ""
    exits = history.of("target.exit")
    how = f" (exit code {exits[-1].get('code')})" if exits else ""
    if not history.of("target.start", "job.start", "worker.start"):
        return "the target never started"
    return f"the target never committed a step{how}" + (f": {said}" if said else "")


def _worst(findings: Iterable[Finding]) -> Verdict:
    seen = {finding.verdict for finding in findings}
    ranking = (Verdict.VIOLATED, Verdict.INCONCLUSIVE)
    return next((verdict for verdict in ranking if verdict in seen), Verdict.PASS)


def _reason(verdict: Verdict, findings: Sequence[Finding], expectation: Expectation) -> str:
    """One line. As stated: the offence that the scenario is about. Else: one that it does not state."""
    if verdict == Verdict.PASS:
        count = sum(finding.verdict == Verdict.PASS for finding in findings)
        return f"{count} invariants hold"
    chosen = [finding for finding in findings if finding.verdict == verdict]
    if verdict == Verdict.INCONCLUSIVE:
        # A fault without effect explains every other gap; it comes first.
        chosen.sort(key=lambda finding: finding.name != "faults_took_effect")
    elif expectation.met(verdict, findings):
        chosen.sort(key=lambda finding: finding.name != expectation.invariant)
    else:
        chosen.sort(key=lambda finding: finding.name in {expectation.invariant, *expectation.also})
    return f"{chosen[0].name}: {chosen[0].detail}"


def _outcome(planned: PlannedFault, history: History, recoveries: Sequence[Recovery]) -> FaultOutcome:
    trail = history.faults.get(planned.id)
    recover_s = next((r.measured_s for r in recoveries if planned.id in r.faults), None)
    return FaultOutcome(
        id=planned.id,
        name=planned.name,
        where=planned.where,
        when=planned.when,
        fired=trail is not None and trail.fired_t is not None,
        verified=trail is not None and trail.verified_t is not None,
        undone=trail is not None and trail.undone_t is not None,
        undo_verified=trail is not None and trail.undo_verified_t is not None,
        evidence={**trail.evidence, **({"failed": trail.failed} if trail.failed else {})} if trail else {},
        rank=trail.rank if trail else None,
        step=trail.step if trail else None,
        recover_s=recover_s,
    )


def _step_s(history: History) -> float | None:
    """Median time between a process's consecutive commits in one generation."""
    gaps = [
        after.t - before.t
        for rank in history.ranks
        for before, after in pairwise(history.commits(rank))
        if (before.pid, before.generation, before.step + 1) == (after.pid, after.generation, after.step)
    ]
    return median(gaps) if gaps else None


def _wall_s(history: History) -> float | None:
    return time_of(history.events[-1]) - time_of(history.events[0]) if history.events else None


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
    if leftovers:
        return 3
    if interrupted:
        return 130
    surprising = {result.verdict for result in results if not result.as_expected}
    # A scenario that should have been VIOLATED and passed is a check that does not work: as bad.
    if surprising & {Verdict.VIOLATED, Verdict.PASS}:
        return 1
    if errors:
        return 70
    return 2 if surprising else 0
