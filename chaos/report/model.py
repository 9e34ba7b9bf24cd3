"""The published shape of ``report.json``. The JSON Schema is generated from these models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FaultReport(_Part):
    """One planned fault and its evidence."""

    id: str
    name: str
    where: dict[str, JsonValue]
    when: dict[str, JsonValue]
    rank: int | None = Field(None, description="the victim's logical rank, once it was known")
    step: int | None = Field(None, description="the step in which it struck")
    fired: bool
    verified: bool
    undone: bool
    undo_verified: bool
    recover_s: float | None = Field(None, description="fault fired to the next job commit, seconds")
    evidence: dict[str, JsonValue] = Field(description="evidence by stage: fired, verified, undone, ...")


class CauseReport(_Part):
    """One reason that the target gave for a recovery."""

    rank: int | None
    kind: str | None
    detail: str = ""


class RecoveryReport(_Part):
    """One recovery; durations in seconds, null where the target does not show the phase."""

    cause: str = Field(description="kinds of all causes, joined with +")
    rank: int | None = Field(description="rank of the first cause")
    causes: list[CauseReport]
    faults: list[str] = Field(description="ids of the faults that it answers")
    generation: int | None
    detect_s: float | None
    fence_s: float | None
    regroup_s: float | None
    transfer_s: float | None
    resume_s: float | None
    total_s: float | None = Field(description="as the target reports it")
    measured_s: float | None = Field(description="as the judge measures it: fault fired to next job commit")
    bytes: int | None
    derived: bool = Field(description="true if the target reported nothing and the judge derived it")


class InvariantReport(_Part):
    """One invariant's finding."""

    name: str
    verdict: Literal["PASS", "VIOLATED", "INCONCLUSIVE", "NOT_APPLICABLE"]
    detail: str
    count: int = 0
    first: str | None = None
    worst: str | None = None
    last: str | None = None


class ScenarioReport(_Part):
    """One judged scenario."""

    name: str
    verdict: Literal["PASS", "VIOLATED", "INCONCLUSIVE", "ERROR"]
    expected: str
    as_expected: bool
    reason: str
    seed: int | None
    replay: str = Field(description="one command that runs this scenario again")
    wall_s: float | None
    step_s: float | None = Field(description="median time of an undisturbed step, seconds")
    faults: list[FaultReport]
    recoveries: list[RecoveryReport]
    invariants: list[InvariantReport]


class RecoveryTimes(_Part):
    """Fault fired to next job commit, seconds, over all recoveries of one kind of fault."""

    count: int
    median_s: float
    worst_s: float


class Summary(_Part):
    """The run in a few figures."""

    scenarios: dict[str, int] = Field(description="number of scenarios by verdict")
    unexpected: list[str] = Field(description="scenarios that did not end as they state")
    recovery: dict[str, RecoveryTimes] = Field(
        description="by fault; faults that one recovery answers together are joined with +"
    )
    step_s: float | None = Field(description="median over the scenarios' median step times, seconds")


class Report(_Part):
    """What a run of ``torch-chaos`` found."""

    version: int = VERSION
    suite: str
    seed: int | None
    plan_hash: str
    exit_code: int
    wall_s: float
    replay: str
    scenarios: list[ScenarioReport]
    summary: Summary
    environment: dict[str, JsonValue]
    not_fixed_by_seed: list[str]


def schema() -> dict[str, object]:
    """The JSON Schema of ``report.json``."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Report.model_json_schema()}
