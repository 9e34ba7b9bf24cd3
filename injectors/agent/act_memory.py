"""Memory that is taken until the kernel ends the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

CHUNK_BYTES = 1 << 20
# Far enough above the limit that nothing but a missing limit can be the reason for being alive.
BEYOND_BYTES = 256 << 20


def memory(agent: Agent, armed: Armed) -> None:
    """Take memory, page by page written to, under a limit that the engine has set from outside."""
    most = int(armed.params["headroom_bytes"]) + BEYOND_BYTES
    agent.report("fired", armed, f"takes memory until it is ended, {most} bytes at most", most_bytes=most)
    held = [bytearray(CHUNK_BYTES) for _ in range(most // CHUNK_BYTES)]
    agent.report("failed", armed, f"{len(held)} MiB were granted: no limit is in force", proven=False)
