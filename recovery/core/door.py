"""Who may have a session with the coordinator, and when.

Rules it keeps
- A session number is given once. The number of its last session is what a supervisor proves itself with.
- A supervisor that has ended everything of the node's present session gets another one at once. So does
  anyone for a node on which nothing can be running.
- Anyone else waits until the node's lease is over: an earlier supervisor may have left processes, and a
  greeting that was long on its way may speak of a session that has been followed by another.
- Whoever belongs to an earlier start of the job is refused for good.
"""

from __future__ import annotations

from dataclasses import dataclass

from recovery.core.nodes import Node, Standing


@dataclass(frozen=True, slots=True)
class Hello:
    """A supervisor's greeting.

    Attributes:
        job: the start of the job that it belongs to; "" if it has not been told of one.
        resumes: the session that it goes on with, over a new connection; 0 if it asks for a new one.
        former: its last session, of which nothing runs any more; 0 if it had none, or never knew of it.
    """

    node: int
    job: str
    resumes: int = 0
    former: int = 0


@dataclass(frozen=True, slots=True)
class Admitted:
    session: int
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """Not now. `wait_s` is how long it takes at most if the node stays silent."""

    wait_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Never."""

    reason: str


class Door:
    """Pure; one for each start of a job. `job` names that start, and no other."""

    def __init__(self, job: str) -> None:
        self.job = job
        self._sessions = 1
        """The first is that of the coordinator's own node."""

    def knock(self, hello: Hello, node: Node, now: float) -> Admitted | Later | Refused:
        """Answer a greeting. `node` is what the coordinator knows of it."""
        if hello.job not in ("", self.job):
            return Refused("it belongs to an earlier start of this job")
        absent = node.standing is Standing.ABSENT
        if hello.resumes:
            if absent or hello.resumes != node.session:
                return Later(0.0, "that session is over")
            return Admitted(node.session, resumed=True)
        if absent or (hello.former and hello.former == node.session):
            self._sessions += 1
            return Admitted(self._sessions)
        return Later(max(0.0, node.dead_by - now), "the lease of an earlier supervisor has not run out")
