"""What a mechanism of the network family does.

A fault lists its ways best first. The first that works on this machine and with these nodes is taken; what is
found in its way there is a refusal, not a reason to take the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from injectors.fault import Mechanism
from injectors.net.scenes import Scene

if TYPE_CHECKING:
    from injectors.net.base import NetFault


class Way(ABC):
    """One mechanism. Stateless; what it must remember is in the scene."""

    kind: str
    """The kind of its undo records."""
    enters: bool = True
    """Whether it needs to enter the nodes' namespaces."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    def unfit(self, scene: Scene) -> str | None:
        """Why it can't be used with these nodes; None if it can."""
        return None

    @abstractmethod
    def prepare(self, fault: NetFault, scene: Scene) -> dict[str, Any]:
        """The data of the undo record. Looks, and changes nothing.

        Raises:
            FaultError: something foreign is in the way.
            SpaceError: a node can't be looked into.
        """

    @abstractmethod
    def apply(self, fault: NetFault, scene: Scene, data: Mapping[str, Any]) -> None:
        """Bring the fault about.

        Raises:
            SpaceError, HelperError, DockerError, OSError: it failed; a part of it may be in place.
        """

    def counters(self, scene: Scene, data: Mapping[str, Any]) -> dict[str, int]:
        """What was hit so far, by name.

        Raises:
            SpaceError, HelperError: the counters can't be read.
        """
        return {}
