"""Between nodes: who hears whom, and sessions that outlive their connections.

Claims that are kept, and no others: in one session messages arrive once and in order, unless the session
ends; a cut or a broken connection delays them. A greeting is bound to no session: it may be lost, and a copy
may come late.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.simulation.fleet import FleetWorld
    from chaos.simulation.post import Post

Pair = tuple[int, int]
RESEND_S = (0.02, 0.25)
"""What a lost packet costs until it is sent again."""
LOSS_RATE = 0.3


class Network:
    """Directed pairs of nodes that are cut, and how slow each node's links are."""

    def __init__(self, world: FleetWorld, nodes: int) -> None:
        self.world = world
        self.cut: Counter[Pair] = Counter()
        self.slow_s = [0.0] * nodes
        self.lossy = [0] * nodes
        self.lines: list[Line] = []

    def passes(self, sender: int, receiver: int) -> bool:
        return not self.cut or not self.cut[sender, receiver]

    def both_ways(self, one: int, other: int) -> bool:
        return not self.cut or not (self.cut[one, other] or self.cut[other, one])

    def sever(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self.cut[pair] += 1

    def heal(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self.cut[pair] -= 1
            if not self.cut[pair]:
                del self.cut[pair]
        for line in self.lines:
            line.flush()

    def wait_s(self, one: int, other: int) -> float:
        """How long a message takes between two nodes."""
        world = self.world
        wait_s = world.delay(0.0004, 0.003) + self.slow_s[one] + self.slow_s[other]
        if (self.lossy[one] or self.lossy[other]) and world.rng.random() < LOSS_RATE:
            wait_s += world.delay(*RESEND_S)
        return wait_s


class Line:
    """One session's conversation. What waits is heard later, in order, or ends with the session."""

    __slots__ = (
        "broken_until",
        "closed",
        "down",
        "last_down",
        "last_up",
        "node",
        "post",
        "proved_until",
        "sent",
        "session",
        "up",
        "world",
    )

    def __init__(self, world: FleetWorld, post: Post, session: int, proved_until: float) -> None:
        self.world, self.post, self.session = world, post, session
        self.node = post.index
        self.up: deque[Any] = deque()
        self.down: deque[Any] = deque()
        self.last_up = self.last_down = self.broken_until = 0.0
        self.closed = False
        """The node's end is."""
        self.proved_until = proved_until
        """Until when the node may act by what the coordinator has heard: the observer's own reckoning."""
        self.sent: dict[int, float] = {}
        """When each beat was sent, by the node's clock."""

    def send_up(self, message: Any) -> None:
        self.up.append(message)
        world = self.world
        self.last_up = max(self.last_up, world.now + world.network.wait_s(self.node, 0))
        world.push(self.last_up, None, self._arrive_up)

    def send_down(self, handler: Any, message: Any) -> None:
        self.down.append((handler, message))
        world = self.world
        self.last_down = max(self.last_down, world.now + world.network.wait_s(0, self.node))
        world.push(self.last_down, None, self._arrive_down)

    def _arrive_up(self, _: Any = None) -> None:
        world = self.world
        if self.up and world.now >= self.broken_until and world.network.passes(self.node, 0):
            world.heard_of_node(self, self.up.popleft())

    def _arrive_down(self, _: Any = None) -> None:
        world = self.world
        if self.down and world.now >= self.broken_until and world.network.passes(0, self.node):
            handler, message = self.down.popleft()
            # A supervisor that stands still finds it in its socket later.
            world.push(world.now, self.post, self.post.told, (self, handler, message))

    def break_until(self, until: float) -> None:
        """The connection is reset; another stands at that time."""
        self.broken_until = max(self.broken_until, until)
        self.world.push(self.broken_until, None, self.flush)

    def flush(self, _: Any = None) -> None:
        """What has waited goes on."""
        world = self.world
        for _number in range(len(self.up)):
            self.last_up = max(self.last_up, world.now + world.delay(0.0002, 0.002))
            world.push(self.last_up, None, self._arrive_up)
        for _number in range(len(self.down)):
            self.last_down = max(self.last_down, world.now + world.delay(0.0002, 0.002))
            world.push(self.last_down, None, self._arrive_down)

    def forget(self, *, farewell: bool = False) -> None:
        """The node's end is closed: what it has not got out is lost, what is under way may still arrive."""
        self.closed = True
        self.down.clear()
        if not farewell and not self.world.network.passes(self.node, 0):
            self.up.clear()
