"""The plan's scenario as the invariants read it: plain data with names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.invariants.expectations import MAY_ABORT, expected_kinds, needs_undo
from chaos.records import float_of, int_of, list_of, map_of, text_of

# Targets whose runtime reports generations, transfers and recoveries. Every other target shows only
# what the agent and the engine see from outside.
KINDS_WITH_RUNTIME_EVENTS = frozenset({"recovery"})
# The kind of a job that was running before the tool came: nothing of the tool is in it.
ATTACHED = "attached"


@dataclass(frozen=True, kw_only=True)
class PlannedFault:
    """One fault of the scenario.

    Attributes:
        kinds: acceptable recovery kinds; empty if no recovery should follow.
        any_rank: whether any rank may be named for it, and replaced.
        may_abort: whether any process may end by SIGABRT because of it.
    """

    id: str
    name: str
    where: Mapping[str, object]
    when: Mapping[str, object]
    kinds: frozenset[str]
    any_rank: bool
    may_abort: bool
    needs_undo: bool


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A scenario. Durations in seconds; None means that the scenario sets no bound."""

    name: str
    kind: str
    restart: str
    world: int | None
    steps: int | None
    faults: tuple[PlannedFault, ...]
    recoveries: int | None
    detect_s: float | None
    recover_s: float | None
    run_s: float | None
    exit_code: int | None
    straggler: bool = False
    """Whether the faults slow a rank down for so long that it must be named."""

    @property
    def shows_runtime_events(self) -> bool:
        """Whether this kind of target reports generations, transfers and recoveries."""
        return self.kind in KINDS_WITH_RUNTIME_EVENTS

    @property
    def restarts_whole_job(self) -> bool:
        """Whether a fault makes every rank start again from a checkpoint."""
        return self.restart == "whole_job"

    @property
    def silent_faults(self) -> frozenset[str]:
        """Ids of the faults that should cause no recovery: all if the scenario states 0 recoveries."""
        return frozenset(fault.id for fault in self.faults if not fault.kinds or self.recoveries == 0)

    @property
    def is_meant_to_end(self) -> bool:
        """Whether the job should end with an error (no holder of the state left, say)."""
        return self.exit_code not in (None, 0)

    def fault(self, fault_id: str) -> PlannedFault | None:
        """The planned fault of this id, or None."""
        return next((fault for fault in self.faults if fault.id == fault_id), None)

    @classmethod
    def of(cls, scenario: Mapping[str, object]) -> Scene:
        """Read a plan's scenario. Missing keys become None or the documented default."""
        target, bounds = map_of(scenario, "target"), map_of(scenario, "bounds")
        kind = text_of(target, "kind") or "recovery"
        default_restart = "in_place" if kind in KINDS_WITH_RUNTIME_EVENTS else "whole_job"
        recoveries = int_of(scenario, "recoveries")
        faults = tuple(_planned(item) for item in list_of(scenario, "faults") if isinstance(item, Mapping))
        return cls(
            name=text_of(scenario, "name") or "?",
            kind=kind,
            restart=text_of(target, "restart") or default_restart,
            world=int_of(target, "world"),
            steps=int_of(target, "steps"),
            faults=faults,
            recoveries=recoveries,
            detect_s=float_of(bounds, "detect_s"),
            recover_s=float_of(bounds, "recover_s"),
            run_s=float_of(bounds, "run_s"),
            exit_code=int_of(map_of(scenario, "expect"), "exit_code"),
            straggler=map_of(scenario, "expect").get("straggler") is True,
        )


def _planned(item: Mapping[str, object]) -> PlannedFault:
    name = text_of(item, "name") or text_of(item, "fault") or "?"
    kinds, any_rank = expected_kinds(item, name)
    return PlannedFault(
        id=text_of(item, "id") or "?",
        name=name,
        where=map_of(item, "where"),
        when=map_of(item, "when"),
        kinds=kinds,
        any_rank=any_rank,
        may_abort=name in MAY_ABORT,
        needs_undo=needs_undo(item, name),
    )
