"""Where a generation's sockets live. Apart from `rendezvous`, so that the supervisor needs no torch."""

from __future__ import annotations

LISTENS = "listens/"
"""Keys that begin so say where a member listens, for whoever has to end its connections."""


def loopback_address(generation: int) -> str:
    """A loopback address of its own, 127.77.x.y, so that a generation's sockets are known exactly.

    Not used again for 60,000 generations.
    """
    number = generation % 60_000
    return f"127.77.{number // 250}.{number % 250 + 1}"
