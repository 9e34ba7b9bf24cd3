"""What a member hears from its own process (events) and what it wants done there (actions).

From the coordinator it hears `Open` and `Leave`; to it, it says `Ready`, `Failed`, `Formed` and `Committed`:
those are in `recovery.core.messages`, and as actions of a member they mean "send this".
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core import messages as m

# ---------------------------------------------------------------- events: heard by a member


@dataclass(frozen=True, slots=True)
class AtRest:
    """The process is in no generation and rolled back; `digest` is that of the state that it has now."""

    digest: str
    finished: bool = False
    """It has no step left to do."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The connections to all peers of the generation stand."""

    generation: int


@dataclass(frozen=True, slots=True)
class Given:
    """This holder's part of the state has been sent."""

    generation: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """All parts have arrived and been put in place; `digest` is computed from what is there now."""

    generation: int
    digest: str
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """The generation can't be used any more: a connection, a collective or its sequence failed."""

    generation: int
    kind: str
    detail: str
    suspect: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A step has begun: from here on the state may be changed half."""

    step: int


@dataclass(frozen=True, slots=True)
class Done:
    """The step's changes are whole, and every peer ran the same sequence of collectives."""

    step: int


Event = AtRest | Connected | Given | Taken | Broken | Begun | Done | m.Open | m.Leave

# ---------------------------------------------------------------- actions: carried out by the process


@dataclass(frozen=True, slots=True)
class Enter:
    """Start the counters of this generation, from this version."""

    generation: int
    version: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Connect to all peers of the generation: answer with `Connected` or `Broken`."""

    generation: int


@dataclass(frozen=True, slots=True)
class Give:
    """Send the state to the receivers: answer with `Given` or `Broken`."""

    opening: m.Open


@dataclass(frozen=True, slots=True)
class Take:
    """Adopt the holders' state: answer with `Taken` or `Broken`."""

    opening: m.Open


@dataclass(frozen=True, slots=True)
class Drop:
    """Leave the generation and close its connections."""

    generation: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Put the state back to what it was when the step began."""


@dataclass(frozen=True, slots=True)
class Commit:
    """The state is at `version` now. `again`: this process had committed that step before."""

    version: int
    again: bool


@dataclass(frozen=True, slots=True)
class Exit:
    """Every rank has finished: go on behind the training loop."""


Action = (
    Enter
    | Connect
    | Give
    | Take
    | Drop
    | Restore
    | Commit
    | Exit
    | m.Ready
    | m.Failed
    | m.Formed
    | m.Committed
)
