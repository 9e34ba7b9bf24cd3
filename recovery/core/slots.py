"""What the coordinator remembers: a slot for each rank, and the recovery that is under way."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from recovery.core import messages as m


class Phase(Enum):
    GATHERING = "gathering"
    """Waiting until every rank has a process that is ready."""
    FORMING = "forming"
    RUNNING = "running"
    LEAVING = "leaving"
    """Every rank has finished; processes end on their own."""
    ENDED = "ended"


class Status(Enum):
    VACANT = "vacant"
    """The former process is gone and no other has been assigned."""
    STARTING = "starting"
    RETURNING = "returning"
    """Interrupted; on its way out of the old generation."""
    READY = "ready"
    FORMING = "forming"
    RUNNING = "running"
    DYING = "dying"
    """Fenced; its death has not been reported yet."""
    LEFT = "left"


IN_GENERATION = (Status.FORMING, Status.RUNNING)


@dataclass(slots=True)
class Slot:
    """One logical rank and the process that owns it."""

    rank: int
    proc: int = -1
    status: Status = Status.VACANT
    opened: int = 0
    """The last generation that its process was told to join, 0 for none."""
    version: int | None = None
    digest: str | None = None
    finished: bool = False
    holds: bool = False
    warm: bool = False
    deadline: float = float("inf")
    busy_until: float = 0.0
    stopped_at: float | None = None
    stopped_since: float | None = None


@dataclass(slots=True)
class Healing:
    """The recovery that is under way."""

    since: float
    detected: float
    causes: list[m.Cause] = field(default_factory=list)
    counted: int = 0
    """How many of the causes the budget has seen."""
    broken: int | None = None
    """The newest generation that a cause is known for."""
    unexplained: int | None = None
    """The generation whose cause, the last of `causes`, is only a broken collective so far."""
    unfinished: tuple[int, m.Cause] | None = None
    """The process that did not finish after the others had, and the cause that does not name it yet."""
    fenced: float | None = None
    formed: float | None = None
    transfer_s: float = 0.0
    bytes_received: int = 0
