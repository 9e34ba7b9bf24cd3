"""What the coordinator hears (events) and what it wants done (actions): plain, frozen data.

What a member hears and does inside its own process is in `recovery.core.orders`.

`proc` is the coordinator's own number for one process, never reused: a pid may be.
`version` counts committed steps: a process at version v has committed steps 0..v-1.
"""

from __future__ import annotations

from dataclasses import dataclass

# ---------------------------------------------------------------- events: heard by the coordinator


@dataclass(frozen=True, slots=True)
class Started:
    """The shell has created the process it was asked for."""

    proc: int
    pid: int | None = None
    """On its own node; for the record."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A process has left its old generation, rolled back, and waits for the next one.

    `version` is None for a process that holds no state. `finished` means that it has no step left.
    """

    proc: int
    version: int | None
    digest: str | None
    finished: bool = False
    generation: int = 0
    """The newest that it has entered, 0 for none: tells a late copy of this message from a new one."""
    left_because: str | None = None
    """The kind of what broke that generation for it, as in its `Failed`, which may arrive later."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A member's generation broke: a collective failed, a peer ran another sequence, forming failed."""

    proc: int
    generation: int
    kind: str
    detail: str
    suspect: int | None = None


@dataclass(frozen=True, slots=True)
class Formed:
    """A member is connected to all others of the generation and holds its agreed state."""

    proc: int
    generation: int
    transfer_s: float = 0.0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class Committed:
    """A member has committed: it is at `version` now (the first of a generation, or newly noticed)."""

    proc: int
    generation: int
    version: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is dead and reaped. After this it can't act any more."""

    proc: int
    code: int | None
    signal: int | None
    error: str | None = None
    """The exception that ended it, if it could still tell."""
    since: float | None = None
    """Its last sign of life."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The kernel reports that the process has been stopped."""

    proc: int
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Continued:
    proc: int


@dataclass(frozen=True, slots=True)
class Accused:
    """The progress counters say that this process is late, or out of step with the majority."""

    proc: int | None
    generation: int
    kind: str
    detail: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """The process has declared a long phase; it may be late until this time."""

    proc: int
    until: float


@dataclass(frozen=True, slots=True)
class Pace:
    """The observed time of one warm step, in seconds."""

    step_s: float


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; deadlines may be due."""


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node's supervisor has introduced itself. Nothing of its former sessions runs any more.

    `session` is the coordinator's own number for this stay, never reused.
    """

    node: int
    session: int


@dataclass(frozen=True, slots=True)
class NodeBeat:
    """The node asks to keep its lease."""

    node: int
    session: int
    number: int
    """The node's own count: its lease runs from the moment at which it sent this beat."""


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """The node says that it has ended all its processes, and will not act in this session again."""

    node: int
    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reached:
    """What a node found when it was asked to reach the others."""

    node: int
    probe: int
    peers: frozenset[int]


Event = (
    Started
    | Ready
    | Failed
    | Formed
    | Committed
    | Exited
    | Stopped
    | Continued
    | Accused
    | Busy
    | Pace
    | Tick
)
NodeEvent = NodeJoined | NodeBeat | NodeLeft | Reached

# ---------------------------------------------------------------- actions: carried out by the shell


@dataclass(frozen=True, slots=True)
class Start:
    """Create a process on a node; with a rank it is a member, without one a spare."""

    proc: int
    rank: int | None
    node: int = 0


@dataclass(frozen=True, slots=True)
class Promote:
    """Give a waiting spare a logical rank."""

    proc: int
    rank: int


@dataclass(frozen=True, slots=True)
class Fence:
    """Kill the process; `Exited` must follow before its rank is given to another."""

    proc: int
    reason: str


@dataclass(frozen=True, slots=True)
class Release:
    """End every wait of this process in groups up to and including `generation`."""

    proc: int
    generation: int


@dataclass(frozen=True, slots=True)
class Member:
    rank: int
    proc: int


@dataclass(frozen=True, slots=True)
class Open:
    """Tell the members to form a generation. Those in `receivers` adopt `version` from `holders`.

    `members` is in the order of ranks, and the same for everyone.
    """

    generation: int
    members: tuple[Member, ...]
    version: int
    digest: str | None
    holders: tuple[int, ...]
    receivers: tuple[int, ...]
    genesis: bool
    cause: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Every member has finished: let them all go."""


@dataclass(frozen=True, slots=True)
class End:
    """The job is over. Nothing may follow."""

    code: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a recovery began. `rank` is None when nobody could be named."""

    rank: int | None
    kind: str
    detail: str
    proc: int | None = None
    node: int | None = None
    """The node that was lost, where all its ranks were lost with it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The node may go on: its lease runs from when it sent the beat of this number."""

    node: int
    session: int
    number: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask these nodes which of each other they reach. An older probe's answer no longer counts."""

    number: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """For the record: a node's standing has changed (`joined`, `returned`, `lost`, `evicted`)."""

    node: int
    standing: str
    reason: str
    session: int = 0
    """Of which session that is said; it may have been followed by another already."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something for the record (`recovery.detect`, `recovery.fence`, ...); no effect on the job."""

    name: str
    cause: Cause | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Recovered:
    """One whole recovery; the five phases add up to the time from `since` to the first new commit."""

    generation: int
    causes: tuple[Cause, ...]
    since: float
    detect_s: float
    fence_s: float
    regroup_s: float
    transfer_s: float
    resume_s: float
    bytes_received: int


Action = (
    Start | Promote | Fence | Release | Open | Leave | End | Note | Recovered | Grant | Probe | NodeChanged
)
