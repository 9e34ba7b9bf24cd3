"""A member's side of the protocol: leave, report, form, give or adopt state, commit.

Rules it keeps
- It is in one generation at a time, and says `Ready` only when it has left the former one and is rolled
  back: whoever is ready can't act in an old generation.
- It joins only what is newer than all it has joined, and only if it is named with its own process number.
- What it reports to hold it really holds: from the first byte of an adoption until the digest of what has
  arrived is the agreed one, it holds nothing.
- It commits one step more than it held, in the generation that it is in, or not at all.
"""

from __future__ import annotations

from enum import Enum

from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.errors import ProtocolError


class Stage(Enum):
    OUTSIDE = "outside"
    """In no generation, and nobody has been told yet."""
    WAITING = "waiting"
    """Ready; the coordinator decides what comes next."""
    CONNECTING = "connecting"
    GIVING = "giving"
    TAKING = "taking"
    IDLE = "idle"
    """In a generation, between two steps."""
    STEPPING = "stepping"
    GONE = "gone"


_JOINED = (Stage.CONNECTING, Stage.GIVING, Stage.TAKING, Stage.IDLE, Stage.STEPPING)


class Member:
    """`handle(event, now)` for everything that happens to one process that owns a rank."""

    __slots__ = (
        "_connected_at",
        "_first_commit",
        "_left_because",
        "_newest_committed",
        "_opening",
        "finished",
        "generation",
        "proc",
        "rank",
        "stage",
        "step",
        "version",
    )

    def __init__(self, rank: int, proc: int) -> None:
        self.rank = rank
        self.proc = proc
        self.stage = Stage.OUTSIDE
        self.version: int | None = None
        """Committed steps; None while this process holds no state."""
        self.generation = 0
        """The newest that it has entered."""
        self.step = -1
        self.finished = False
        self._opening: m.Open | None = None
        self._left_because: str | None = None
        self._newest_committed = 0
        self._first_commit = False
        self._connected_at = 0.0

    @property
    def joined(self) -> bool:
        """Whether it is in a generation."""
        return self.stage in _JOINED

    @property
    def opening(self) -> m.Open | None:
        """What the coordinator decided for the generation that it is in."""
        return self._opening

    def is_over(self, open_generation: int, broken: bool) -> bool:
        """Whether the next step must not begin: this generation failed, or is not the open one."""
        return broken or not self.joined or open_generation != self.generation

    def handle(self, event: o.Event, now: float) -> list[o.Action]:
        """Take one event; return what must be done, in order.

        Raises:
            ProtocolError: the process reports something that its stage does not allow.
        """
        match event:
            case o.Begun(step=step):
                self._expect(event, Stage.IDLE)
                if step != self.version:
                    raise ProtocolError(f"step {step} has begun at version {self.version}")
                self.stage, self.step = Stage.STEPPING, step
                return []
            case o.Done():
                return self._done(event)
            case o.Broken():
                return self._broken(event)
            case o.AtRest():
                return self._at_rest(event)
            case m.Open():
                return self._open(event)
            case o.Connected(generation=generation) if self._in(generation):
                return self._connected(event, now)
            case o.Given(generation=generation) if self._in(generation):
                self._expect(event, Stage.GIVING)
                return self._formed(now, 0)
            case o.Taken(generation=generation) if self._in(generation):
                return self._taken(event, now)
            case o.Connected() | o.Given() | o.Taken():
                return []  # of a generation that has been left
            case m.Leave():
                if self.stage is not Stage.WAITING or not self.finished:
                    return []
                self.stage = Stage.GONE
                return [o.Exit()]
        raise ProtocolError(f"{event} is not known to a member")

    # ------------------------------------------------------------------ leaving

    def _broken(self, event: o.Broken) -> list[o.Action]:
        if not self._in(event.generation):
            return []
        stepping = self.stage is Stage.STEPPING
        self.stage, self._opening = Stage.OUTSIDE, None
        self._left_because = event.kind
        failed = m.Failed(self.proc, self.generation, event.kind, event.detail, event.suspect)
        actions: list[o.Action] = [failed, o.Drop(self.generation)]
        return [*actions, o.Restore()] if stepping else actions

    def _at_rest(self, event: o.AtRest) -> list[o.Action]:
        if self.stage is Stage.IDLE and event.finished:
            # It keeps its connections: peers may still be inside the last step.
            self._left_because = None
        else:
            self._expect(event, Stage.OUTSIDE)
        self.stage, self.finished = Stage.WAITING, event.finished
        return [
            m.Ready(
                self.proc, self.version, event.digest, event.finished, self.generation, self._left_because
            )
        ]

    # ------------------------------------------------------------------ joining

    def _open(self, opening: m.Open) -> list[o.Action]:
        if self.stage is not Stage.WAITING or opening.generation <= self.generation:
            return []  # late, or delivered twice
        if opening.members[self.rank].proc != self.proc:
            return []  # meant for a process that had this rank before, or will have it
        self.stage, self.generation, self._opening = Stage.CONNECTING, opening.generation, opening
        return [o.Enter(opening.generation, self.version or 0), o.Connect(opening.generation)]

    def _connected(self, event: o.Connected, now: float) -> list[o.Action]:
        self._expect(event, Stage.CONNECTING)
        opening = self._opening
        assert opening is not None
        self._connected_at = now
        if self.rank in opening.receivers:
            # From here on this process holds neither its old state nor, yet, the new one.
            self.stage, self.version = Stage.TAKING, None
            return [o.Take(opening)]
        if opening.receivers and self.rank in opening.holders:
            self.stage = Stage.GIVING
            return [o.Give(opening)]
        return self._formed(now, 0)

    def _taken(self, event: o.Taken, now: float) -> list[o.Action]:
        self._expect(event, Stage.TAKING)
        opening = self._opening
        assert opening is not None
        if opening.digest is not None and event.digest != opening.digest:
            detail = f"received {event.digest}, agreed was {opening.digest}"
            return self._broken(o.Broken(event.generation, "collective_error", detail))
        return self._formed(now, event.bytes)

    def _formed(self, now: float, received: int) -> list[o.Action]:
        opening = self._opening
        assert opening is not None
        self.stage, self.version = Stage.IDLE, opening.version
        self._first_commit = True
        transfer_s = now - self._connected_at if opening.receivers else 0.0
        return [m.Formed(self.proc, self.generation, transfer_s, received)]

    # ------------------------------------------------------------------ training

    def _done(self, event: o.Done) -> list[o.Action]:
        self._expect(event, Stage.STEPPING)
        if event.step != self.step:
            raise ProtocolError(f"step {event.step} is done, step {self.step} had begun")
        self.stage, self.version = Stage.IDLE, event.step + 1
        again = event.step < self._newest_committed
        self._newest_committed = max(self._newest_committed, self.version)
        actions: list[o.Action] = [o.Commit(self.version, again)]
        if self._first_commit:
            self._first_commit = False
            actions.append(m.Committed(self.proc, self.generation, self.version))
        return actions

    # ------------------------------------------------------------------ helpers

    def _in(self, generation: int) -> bool:
        return generation == self.generation and self.stage in _JOINED

    def _expect(self, event: o.Event, stage: Stage) -> None:
        if self.stage is not stage:
            raise ProtocolError(f"{event} is not allowed while {self.stage.value}")
