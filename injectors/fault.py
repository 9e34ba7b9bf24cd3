"""What a fault is: typed parameters, an undo record written ahead, and evidence.

A fault is pure data until `inject`. The order is fixed, and the engine keeps it:
`undo_record` is journalled, then `inject`, then `verify`, later `undo` and `verify_undone`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self

from injectors import undo as undo_module


class FaultError(ValueError):
    """A fault, parameter, trigger or configuration that the user can mend; the message says how."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a fault, for validation, help and generated tables."""

    name: str
    kind: str
    """float | int | str."""
    default: Any
    required: bool
    unit: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    drawn: bool = False
    """True: a plan draws the value from its seed, evenly between the limits, where a suite gives none."""

    def check(self, value: Any, fault_id: str) -> Any:
        """The value as the fault stores it.

        Raises:
            FaultError: wrong type, out of range or not one of the choices.
        """
        if value is None and self.default is None and not self.required:
            return None
        where = f"{fault_id}: {self.name}={value!r}"
        if self.kind in ("float", "int"):
            return self._check_number(value, where)
        if self.kind == "str" and not isinstance(value, str):
            raise FaultError(f"{where} must be text")
        if self.choices and value not in self.choices:
            raise FaultError(f"{where} is not known\n  mend: one of {', '.join(self.choices)}")
        return value

    def _check_number(self, value: Any, where: str) -> float | int:
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if not numeric or value != value or (self.kind == "int" and value != int(value)):
            raise FaultError(f"{where} must be {'a whole number' if self.kind == 'int' else 'a number'}")
        if (self.minimum is not None and value < self.minimum) or (
            self.maximum is not None and value > self.maximum
        ):
            raise FaultError(f"{where} is out of range\n  mend: between {self.minimum} and {self.maximum}")
        return int(value) if self.kind == "int" else float(value)


def parameter(
    help: str,
    *,
    kind: str = "float",
    default: Any = MISSING,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    drawn: bool = False,
) -> Any:
    """A dataclass field that describes itself; see `Parameter`."""
    meta = {
        "parameter": {
            "kind": kind,
            "unit": unit,
            "help": help,
            "minimum": minimum,
            "maximum": maximum,
            "choices": choices,
            "drawn": drawn,
        }
    }
    return field(metadata=meta) if default is MISSING else field(default=default, metadata=meta)


def duration(help: str, *, default: float | None = None) -> Any:
    """The field `duration_s`: None means until the engine heals the scenario."""
    return parameter(help, default=default, unit="s", minimum=0.001, maximum=3600.0)


@dataclass(frozen=True, kw_only=True)
class Victim:
    """One process as the engine knows it; `pid` is in the engine's own pid namespace."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/PID/stat: together with the pid it names a process for good."""
    rank: int | None = None
    generation: int | None = None
    step: int | None = None
    fault: str = ""
    """The plan's id of the fault, for example "f1"."""
    run: str = ""
    """The run's marker: what everything that a fault creates is labelled with."""
    work: str = ""
    """The job's own folder: no file elsewhere may be changed."""
    job: tuple[tuple[int, int], ...] = ()
    """Pid and start time of every process of a job that ran before the tool, and so bears no marker."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node of the cluster under test, as plain data: all that a fault needs to act on it from outside."""

    index: int
    name: str
    kind: str
    """local | netns | docker."""
    address: str = ""
    """Its address on the cluster's network."""
    interface: str = ""
    """Its own interface on that network, as it is called inside the node."""
    pid: int = 0
    """A process that lives in the node's namespaces as long as the node does; 0 for `local`."""
    start_ticks: int = 0
    container: str = ""
    """Docker's id of it."""
    network: str = ""
    """Docker's id of the cluster's network, or the bridge's name."""
    launcher: int = 0
    """The node's supervisor or command, 0 while nothing has been started on it."""
    launcher_ticks: int = 0
    daemon: str = ""
    """The address of the docker daemon."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a fault of nodes and networks acts on: the whole cluster, and which of its nodes are meant."""

    nodes: tuple[Node, ...]
    aimed: tuple[int, ...]
    """Indices of the nodes that `where` names."""
    run: str = ""
    """The run's marker: what everything that a fault creates is labelled with."""
    fault: str = ""
    rank: int | None = None
    generation: int | None = None
    step: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One way to bring a fault about. A fault lists its ways best first; the first that works is taken."""

    name: str
    fidelity: str
    """What of it is real, and what only looks alike."""
    probe: Callable[[], str | None]
    """None where it works; else what is missing, and how to get it. Looks, and changes nothing."""


@dataclass(frozen=True)
class Evidence:
    """What was seen, and whether it proves the claim.

    `source` says who saw it: "kernel" (from outside the victim) or "agent" (the victim's own process,
    outside the code that the fault is about). `proven` is False where the sight is not sufficient.
    """

    what: str
    proven: bool
    source: str = "kernel"
    data: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "proven": self.proven, "source": self.source, "data": dict(self.data)}


@dataclass(frozen=True)
class UndoRecord:
    """Pure data, enough to undo a fault when the tool that injected it is gone."""

    kind: str
    """`family.what`; `injectors.undo` finds the family's handlers by it."""
    pid: int = 0
    start_ticks: int = 0
    fault: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the handler needs, JSON only: the value read before, the name and tag of what was created."""

    def as_dict(self) -> dict[str, Any]:
        return {**{item.name: getattr(self, item.name) for item in fields(self)}, "data": dict(self.data)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> UndoRecord:
        return cls(**{item.name: record[item.name] for item in fields(cls) if item.name in record})


class Channel(Protocol):
    """The line to the agent that is blocked at the armed point."""

    def act(self, timeout_s: float = 10.0) -> Evidence:
        """Let the agent act and wait for what it reports.

        The evidence is unproven if the agent reported a failure, was gone or stayed silent.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One way to break a rank. Subclasses are frozen dataclasses whose fields are their parameters."""

    id: ClassVar[str]
    inside: ClassVar[bool] = False
    """True: the agent acts inside the victim. False: the engine acts from outside, the agent only waits."""
    has_undo: ClassVar[bool] = False
    aims_at: ClassVar[Literal["process", "nodes"]] = "process"
    """What `inject`, `verify` and `undo_record` are handed: a `Victim`, or a `Place` of the cluster."""
    proof_comes_later: ClassVar[bool] = False
    """True: `verify` waits for something that the job does later, so the engine runs it beside."""
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ()
    """Best first, never empty in a finished fault: `doctor` says which one this machine would take."""
    needs_run: ClassVar[str] = ""
    """What it takes that only a job has which the tool has started; "" where a running job will do."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Hardware or kernel options without which it can't be tested: "gpu"."""
    privileges: ClassVar[tuple[str, ...]] = ()
    stands_for: ClassVar[str]
    does_not_certify: ClassVar[str]
    expects: ClassVar[str | None] = None
    """What an outsider should see: crash, stopped, hang, desync, exception, collective_error or None."""

    def __post_init__(self) -> None:
        for item in self.parameters():
            object.__setattr__(self, item.name, item.check(getattr(self, item.name), self.id))

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Every parameter, in the order in which help shows them."""
        found = []
        for item in fields(cls):
            required = item.default is MISSING
            default = None if required else item.default
            found.append(
                Parameter(item.name, default=default, required=required, **item.metadata["parameter"])
            )
        return tuple(found)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> Self:
        """Build the fault from a suite's or plan's parameters.

        Raises:
            FaultError: an unknown, missing or invalid parameter.
        """
        known = {item.name: item for item in cls.parameters()}
        for name in params:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                mend = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(known) or '(none)'}"
                raise FaultError(f"{cls.id}: unknown parameter {name!r}\n  mend: {mend}")
        for item in known.values():
            if item.required and item.name not in params:
                raise FaultError(f"{cls.id}: parameter {item.name!r} is missing\n  mend: {item.help}")
        return cls(**params)

    @classmethod
    def summary(cls) -> str:
        """The effect in one line: the first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    # A fault that aims at nodes takes a `Place` as its victim; each subclass says which of the two.
    def undo_record(self, victim: Any) -> UndoRecord | None:
        """What to write to the journal before `inject`; None where there is nothing to undo.

        Raises:
            FaultError: something foreign is in the way, or no mechanism works here. Nothing was changed.
        """
        return None

    def inject(self, victim: Any, channel: Channel | None) -> Evidence:
        """Break the victim. `channel` is the agent's line; outside faults need none."""
        raise NotImplementedError

    def follow(self, victim: Any, fired: Evidence) -> Evidence:
        """The rest of a fault that takes time; the agent that stood at its moment has gone on.

        Returns what `verify` is handed as `fired`. Called only where `proof_comes_later`.
        """
        return fired

    def verify(self, victim: Any, fired: Evidence | None = None) -> Evidence:
        """Whether the effect is there. `fired` is what `inject` returned."""
        raise NotImplementedError

    def undo(self, record: UndoRecord, release: Callable[[str], bool] | None = None) -> Evidence:
        """End the fault; may be repeated, and is harmless when the victim is gone.

        Args:
            record: what `undo_record` returned.
            release: `AgentServer.send_undo`; ends a wait of the agent early.
        """
        if release is not None and record.kind == undo_module.AGENT_RELEASE:
            release(record.fault)
        result = undo_module.carry_out(record.as_dict())
        return Evidence(str(result["detail"]), bool(result["done"]), data=result)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        """Whether the effect is gone."""
        return Evidence("nothing to undo", True)


def _agent_missing() -> str | None:
    boot = Path(__file__).parent / "agent" / "boot" / "sitecustomize.py"
    return None if boot.is_file() else f"{boot} is not there: install torch-chaos anew"


NEEDS_AGENT = "the agent inside the job's processes, which is there from their start or never"
AGENT = Mechanism(
    name="agent in the victim",
    fidelity="the real effect, in the rank's own process",
    probe=_agent_missing,
)


@dataclass(frozen=True, kw_only=True)
class InsideFault(Fault):
    """Base of the faults that the agent carries out inside the victim."""

    inside: ClassVar[bool] = True
    needs_run: ClassVar[str] = NEEDS_AGENT
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (AGENT,)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        if channel is None:
            return Evidence(f"{self.id} needs the agent, and no agent is waiting", False)
        return channel.act()

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        # What happened happened inside; the agent's own before and after is the only sight of it.
        if fired is None:
            return Evidence("the agent reported nothing", False, "agent")
        return fired
