"""How a worker process is tied to its supervisor: two private channels and the progress page."""

from __future__ import annotations

import os
from dataclasses import dataclass

from recovery.shell.channel import Channel
from recovery.shell.page import Page


class SupervisorGone(SystemExit):
    """The supervisor has closed the channel: end quietly, it has said why."""


@dataclass
class Link:
    control: Channel
    store: Channel
    release: Channel
    page: Page
    proc: int
    rank: int | None
    seed: int
    local_rank: int | None = None
    local_world_size: int = 1
    address: str = ""
    """This node's address in a job of several nodes, "" in a job of one."""

    def wait_for_rank(self) -> None:
        """Block until the supervisor gives this process a rank (at once for a first member).

        Raises:
            SupervisorGone: the job has ended without needing this process.
        """
        if self.rank is None:
            self.control.send(op="parked")
            try:
                message = self.control.receive()
            except (EOFError, OSError):
                raise SupervisorGone(0) from None
            self.rank, self.local_rank = int(message["rank"]), int(message["local_rank"])
        os.environ["RANK"] = str(self.rank)
        os.environ["LOCAL_RANK"] = str(self.local_rank)
        os.environ["WORLD_SIZE"] = str(self.page.world_size)
        os.environ["LOCAL_WORLD_SIZE"] = str(self.local_world_size)


_link: Link | None = None


def set_link(link: Link) -> None:
    global _link
    _link = link


def current_link() -> Link | None:
    return _link
