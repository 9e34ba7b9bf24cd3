"""A started command or launcher, wherever it runs, and how it ended."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass

from chaos.clusters import processes


@dataclass(frozen=True)
class End:
    """How a main process ended: an exit code, or the signal that killed it."""

    code: int | None
    signal: int | None = None

    @property
    def well(self) -> bool:
        """Whether it says of itself that all went well."""
        return self.code == 0


class Running(ABC):
    """Something that was started. `pid` is in the engine's own pid namespace."""

    pid: int
    argv: list[str]

    @property
    @abstractmethod
    def end_fd(self) -> int:
        """A descriptor that becomes readable when the main process has ended."""

    @abstractmethod
    def poll(self) -> End | None:
        """How the main process ended, None while it runs."""

    @abstractmethod
    def stop(self) -> None:
        """End everything that was started, by force, and release what was held. May be repeated."""

    def orphans(self) -> list[processes.Process]:
        """What was left running after the main process ended, as far as it can be seen."""
        return []

    def signal(self, number: int) -> None:
        """Send a signal to the main process."""
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass
