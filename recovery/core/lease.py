"""A node's side of its lease: when it may act, and when it must have ended its processes.

A lease runs from the moment at which the granted beat was *sent*, by the node's own clock. The coordinator
counts from when it *heard* that beat, which is later, and adds what clocks may drift: so when it takes the
node for dead, the node has been idle for some time already.
"""

from __future__ import annotations

from recovery.core.config import Config


class Lease:
    """Pure: told of time, says what is due. Times are the node's own seconds since some moment.

    Its clock must go on while the machine is suspended (`CLOCK_BOOTTIME`).

    Args:
        now: when the greeting was sent that the coordinator answered by its welcome: that is the first beat.
    """

    def __init__(self, config: Config, now: float) -> None:
        self.config = config
        self.until = now + config.lease_s
        """Nothing of this node acts after this."""
        self._over = False
        self._number = 0
        self._sent: dict[int, float] = {}
        self._next_beat = now

    @property
    def fence_at(self) -> float:
        """When the node must begin to end its processes."""
        return self.until - self.config.lease_margin_s

    def beat(self, now: float) -> int | None:
        """The number of the beat to be sent now, None if none is due."""
        if now < self._next_beat:
            return None
        self._next_beat = now + self.config.beat_s
        self._number += 1
        self._sent[self._number] = now
        return self._number

    def granted(self, number: int) -> None:
        """The coordinator has heard beat `number`. Earlier ones, and repetitions, prolong nothing."""
        sent = self._sent.get(number)
        if sent is None:
            return
        self._sent = {n: at for n, at in self._sent.items() if n > number}
        self.until = max(self.until, sent + self.config.lease_s)

    def over(self, now: float) -> bool:
        """Whether the processes must be ended now. Once it is over, a late grant does not bring it back."""
        self._over = self._over or now >= self.fence_at
        return self._over

    def due(self) -> float:
        """When to look again."""
        return min(self._next_beat, self.fence_at)
