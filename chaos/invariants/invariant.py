"""What an invariant is: a pure function from a history and its twin to a finding, and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from chaos.history import History
from chaos.invariants.finding import Finding, not_applicable, too_thin
from chaos.invariants.scene import ATTACHED, Scene

Body = Callable[[History, History | None, Scene], Finding]

# Events that only a target with our kind of runtime writes. A target that can't show them is not to
# blame for their absence.
RUNTIME_EVENTS = frozenset(
    {
        "job.start",
        "job.end",
        "generation.open",
        "generation.formed",
        "group.release",
        "fence",
        "step.begin",
        "step.rollback",
        "state.send",
        "state.receive",
        "recovery.detect",
        "recovery.done",
    }
)


@dataclass(frozen=True, kw_only=True)
class Invariant:
    """One invariant; call it with (history, reference, scenario).

    Attributes:
        name: a sentence that is true when green.
        needs: events without which nothing can be said.
        needs_twin: whether it compares with the fault-free twin.
        needs_job: whether it is about the job, and not about the tool alone.
        sources: ids of the failure cases' invariants that it stands for.
    """

    name: str
    summary: str
    needs: tuple[str, ...]
    needs_twin: bool
    sources: tuple[str, ...]
    body: Body
    needs_job: bool = True

    def __call__(
        self, history: History, reference: History | None, scenario: Mapping[str, object]
    ) -> Finding:
        """Judge; never raises for a thin history, only for a bug of the check itself."""
        scene = Scene.of(scenario)
        finding = self._missing(history, reference, scene) or self.body(history, reference, scene)
        return replace(finding, name=self.name)

    def _missing(self, history: History, reference: History | None, scene: Scene) -> Finding | None:
        if self.needs_job and scene.kind == ATTACHED:
            return not_applicable("a job that is attached to tells nothing of itself")
        missing = [name for name in self.needs if not history.has(name)]
        hidden = [name for name in missing if name in RUNTIME_EVENTS]
        if hidden and not scene.shows_runtime_events:
            return not_applicable(f"a {scene.kind} target does not report {', '.join(hidden)}")
        if missing:
            return too_thin(f"the history has no {', '.join(missing)}")
        if self.needs_twin and reference is None:
            return too_thin("there is no fault-free twin to compare with")
        return None


def invariant(
    *,
    needs: Iterable[str] = (),
    needs_twin: bool = False,
    needs_job: bool = True,
    sources: Iterable[str] = (),
) -> Callable[[Body], Invariant]:
    """Declare a function as an invariant of the function's name."""

    def wrap(body: Body) -> Invariant:
        summary = (body.__doc__ or "").strip().splitlines()[0] if body.__doc__ else ""
        return Invariant(
            name=body.__name__,
            summary=summary,
            needs=tuple(needs),
            needs_twin=needs_twin,
            needs_job=needs_job,
            sources=tuple(sources),
            body=body,
        )

    return wrap


def catalogue_of(invariants: Iterable[Invariant]) -> dict[str, Invariant]:
    """Invariants by name. Raises ValueError for two of one name."""
    found: dict[str, Invariant] = {}
    for item in invariants:
        if item.name in found:
            raise ValueError(f"two invariants are named {item.name!r}")
        found[item.name] = item
    return found
