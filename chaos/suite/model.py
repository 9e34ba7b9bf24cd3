"""What a suite file may say. Pure data: pydantic models that refuse unknown keys, and the JSON Schema drawn
from them.

A scenario's target is a patch over `defaults.target`; `chaos.suite.resolve` merges the two and checks the
result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from chaos.suite import durations
from injectors.agent import trigger

# A recovery's phases are events of the runtime: `phase: transfer` is `event: recovery.transfer`.
RECOVERY_PHASES = ("detect", "fence", "regroup", "transfer", "resume")
PHASES = (*trigger.PHASES, *RECOVERY_PHASES)
EVENTS = (
    "job.start",
    "job.end",
    "worker.start",
    "worker.promoted",
    "worker.exit",
    "generation.open",
    "generation.formed",
    "group.release",
    "fence",
    "member.enter",
    "step.begin",
    "step.seal",
    "step.commit",
    "step.rollback",
    "state.send",
    "state.receive",
    "recovery.detect",
    "recovery.fence",
    "recovery.regroup",
    "recovery.transfer",
    "recovery.resume",
    "recovery.done",
    "busy.begin",
    "busy.end",
    "budget.exhausted",
    "straggler",
    "node.joined",
    "node.returned",
    "node.lost",
    "node.evicted",
    "node.session",
    "lease.expired",
)
Role = Literal["lowest_live", "store_host", "transfer_source", "transfer_target", "replacement", "detected"]
VERDICTS = ("PASS", "VIOLATED", "INCONCLUSIVE", "ERROR")
# Random phases are drawn from those that every training step has.
STEP_PHASES = ("forward", "backward", "optimizer")


def _wrong(message: str, mend: str) -> PydanticCustomError:
    # The message may hold braces of a value that the user wrote, so it travels as context, not as the
    # template.
    return PydanticCustomError("suite", "{message}", {"message": message, "mend": mend})


def _duration(value: Any) -> float:
    if isinstance(value, str):
        try:
            return durations.seconds(value)
        except ValueError:
            pass
    raise _wrong(f"{value!r} is not a duration", "write a number and a unit: 500ms, 2s, 1.5m or 1h")


def _number_or_range(value: Any, what: str, one: Any) -> Any:
    """A value, or a pair [lowest, highest] that the seed draws from."""
    if isinstance(value, list):
        if len(value) != 2:
            raise _wrong(f"{value!r} is not a range of {what}", "write two values: [lowest, highest]")
        low, high = one(value[0]), one(value[1])
        if low > high:
            raise _wrong(
                f"the range {value!r} is empty", f"write the lower value first: [{value[1]}, {value[0]}]"
            )
        return [low, high]
    return one(value)


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(f"{value!r} is not a step", "write a whole number from 0, or a range: [5, 20]")


def _moment(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    if isinstance(value, str):
        return _duration(value)
    raise _wrong(
        f"{value!r} is not a time", "write seconds (1.5), a duration (200ms) or a range: [1ms, 180ms]"
    )


def _rank(value: Any) -> int | str:
    if (isinstance(value, int) and not isinstance(value, bool) and value >= 0) or value in (
        "random",
        "other",
    ):
        return value  # type: ignore[no-any-return]  # narrowed by the test above
    raise _wrong(f"{value!r} is not a rank", "write a whole number from 0, `random`, or `other`")


def _node(value: Any) -> int | str:
    if (isinstance(value, int) and not isinstance(value, bool) and value >= 0) or value in (
        "random",
        "other",
    ):
        return value  # type: ignore[no-any-return]  # narrowed by the test above
    raise _wrong(f"{value!r} is not a node", "write a whole number from 0, `random`, or `other`")


def _env_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value}"
    raise _wrong(f"{value!r} is not an environment value", 'write it in quotes: "1"')


def _expectation(value: Any) -> Any:
    return {"verdict": value} if isinstance(value, str) else value


Duration = Annotated[
    float, BeforeValidator(_duration), WithJsonSchema({"type": "string", "pattern": durations.PATTERN})
]
_NUMBER_SCHEMA: dict[str, Any] = {"type": "integer", "minimum": 0}
_MOMENT_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": durations.PATTERN}]
}


_EXPECT_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"enum": list(VERDICTS)},
        {
            "type": "object",
            "properties": {
                "verdict": {"enum": list(VERDICTS)},
                "invariant": {"type": "string"},
                "also": {"type": "array", "items": {"type": "string"}},
                "exit_code": {"type": "integer"},
                "straggler": {"type": "boolean"},
            },
            "additionalProperties": False,
        },
    ]
}


def _ranged(schema: dict[str, Any]) -> WithJsonSchema:
    pair = {"type": "array", "items": schema, "minItems": 2, "maxItems": 2}
    return WithJsonSchema({"anyOf": [schema, pair]})


StepAt = Annotated[
    Any, BeforeValidator(lambda v: _number_or_range(v, "steps", _whole)), _ranged(_NUMBER_SCHEMA)
]
Moment = Annotated[
    Any, BeforeValidator(lambda v: _number_or_range(v, "times", _moment)), _ranged(_MOMENT_SCHEMA)
]
Rank = Annotated[
    Any,
    BeforeValidator(_rank),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"enum": ["random", "other"]}]}),
]
NodeIndex = Annotated[
    Any,
    BeforeValidator(_node),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"enum": ["random", "other"]}]}),
]
EnvValue = Annotated[str, BeforeValidator(_env_value), WithJsonSchema({"type": ["string", "number"]})]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=80)]


class Model(BaseModel):
    """Strict: `"3"` is not a number, and an unknown key is an error."""

    # Built when first used, as parts of the whole suite: each by itself at import would take twice the time.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


class StepRule(Model):
    """What counts as a step in a script that we did not write.

    `optimizer`: one step of an optimizer, the first one used or number `index` (from 0, in order of first
    use). `every_n`: every n-th of them. `stdout`: a line that matches `pattern`, whose group `step` (or first
    group) is the number of the step that the line says is done.
    """

    rule: Literal["optimizer", "every_n", "stdout"] = "optimizer"
    index: int | None = Field(default=None, ge=0)
    n: int | None = Field(default=None, ge=1)
    pattern: str | None = None


class ClusterPatch(Model):
    """Where the target's parts run: `nodes` of them, on each of which its launcher or command is started.

    `local`: processes of this host. `netns`: network namespaces of it. `docker`: containers, of `image` or of
    one made from this host.
    """

    kind: Literal["local", "netns", "docker"] = "local"
    nodes: int = Field(ge=1, le=200)
    image: str | None = None


class TargetPatch(Model):
    """What to run. Every key may come from `defaults.target`; which ones belong together is the kind's
    business."""

    kind: Literal["recovery", "command", "custom"] | None = None
    workload: str | None = Field(
        default=None, description="recovery: a shipped workload's name or the path of a script"
    )
    argv: list[str] | None = Field(
        default=None, description="command: the command line; {suite} {python} {work} are filled in"
    )
    file: str | None = Field(default=None, description="custom: the Python file that defines the target")
    options: dict[str, Any] | None = Field(
        default=None, description="custom: handed to the target as they are"
    )
    world: int | None = Field(default=None, ge=0, description="ranks that train")
    steps: int | None = Field(default=None, ge=0, description="steps that a complete run commits")
    spares: int | None = Field(default=None, ge=0)
    max_restarts: int | None = Field(default=None, ge=0)
    cluster: ClusterPatch | None = Field(
        default=None, description="nodes to run on; without it, one launcher on this host"
    )
    env: dict[str, EnvValue] | None = None
    args: list[str] | None = Field(default=None, description="recovery: arguments of the script")
    sources: list[str] | None = Field(
        default=None,
        description="recovery: further files that decide what is trained; a change makes another twin",
    )
    preload: list[str] | None = Field(
        default=None, description="recovery: modules that the template process imports"
    )
    step: StepRule | None = None
    digest: bool | None = Field(
        default=None, description="command: have the agent digest the state at each step"
    )
    cwd: str | None = None
    restart: Literal["in_place", "whole_job"] | None = Field(
        default=None, description="what a recovery does to healthy ranks: nothing, or all start again"
    )
    ignore_files: list[str] | None = Field(
        default=None, description="patterns of files the target may leave in TMPDIR"
    )


class Bounds(Model):
    """How long things may take; `run` bounds the whole scenario."""

    detect: Duration | None = None
    recover: Duration | None = None
    run: Duration | None = None


class Where(Model):
    """Which process or node: a rank or a node (a number, `random`, or `other`: not that of the fault before),
    or a role. A fault of nodes that names a rank or a role means the node that it is on."""

    rank: Rank = None
    node: NodeIndex = None
    role: Role | None = None


class Collective(Model):
    """The nth (from 1) collective, of one operation or process group when these are given."""

    nth: int | None = Field(default=None, ge=1)
    op: str | None = None
    group: str | None = None


class When(Model):
    """The moment. `after_s` alone counts from the first step that every rank has committed, beside
    `after_fault`
    from the moment that fault fired."""

    step: StepAt = None
    phase: str | None = None
    collective: Collective | None = None
    event: str | None = None
    occurrence: int | None = Field(default=None, ge=1)
    after_fault: str | None = None
    after_s: Moment = None


class Repeat(Model):
    """Expand one entry into `count` faults, each `every` steps (or occurrences of the event) after the one
    before."""

    count: int = Field(ge=1, le=10_000)
    every: int = Field(default=1, ge=1)


class FaultEntry(Model):
    """One fault: which, where, when, for how long and with which parameters."""

    fault: str
    id: Name | None = None
    where: Where
    when: When
    for_: Duration | None = Field(default=None, alias="for")
    with_: dict[str, Any] = Field(default_factory=dict, alias="with")
    repeat: Repeat | None = None


class Expect(Model):
    """The verdict a scenario should get. `invariant` names the one that must be violated, `also` those that
    may be;
    `exit_code` is the target's, where the job is meant to end without finishing. `straggler`: the faults slow
    a rank down for so long that it must be named."""

    verdict: Literal["PASS", "VIOLATED", "INCONCLUSIVE", "ERROR"] = "PASS"
    invariant: str | None = None
    also: list[str] | None = None
    exit_code: int | None = None
    straggler: bool | None = None


class Scenario(Model):
    """One run of the target, its faults, and what is held against it."""

    name: Name
    description: str = ""
    target: TargetPatch = TargetPatch()
    faults: list[FaultEntry] = Field(default_factory=list)
    bounds: Bounds = Bounds()
    expect: Annotated[Expect, BeforeValidator(_expectation), WithJsonSchema(_EXPECT_SCHEMA)] = Expect()
    recoveries: int | None = Field(default=None, ge=0)


class Defaults(Model):
    """What every scenario starts from."""

    target: TargetPatch = TargetPatch()
    bounds: Bounds = Bounds()


class Suite(Model):
    """A suite file: a name, what all scenarios share, and the scenarios."""

    suite: Name
    description: str = ""
    seed: int = Field(0, ge=0)
    defaults: Defaults = Defaults()
    scenarios: list[Scenario] = Field(min_length=1)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a suite file, for editors and for other tools."""
    schema = Suite.model_json_schema(by_alias=True)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "torch-chaos suite"
    return schema
