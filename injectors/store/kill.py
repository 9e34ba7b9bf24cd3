"""`store.kill`."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Channel, Evidence, Fault, Mechanism, Victim
from injectors.process.ending import PIDFD, send_signal, verify_gone
from injectors.store.hosted import as_victim, host_in, host_of, told


@dataclass(frozen=True, kw_only=True)
class StoreKill(Fault):
    """SIGKILL the process that hosts the TCPStore of a rank: torchrun's agent, or rank 0.

    The host is found from the rank's MASTER_ADDR and MASTER_PORT and from who listens there. A process
    without the run's marker is never touched.
    Proof: the kernel says that the host has ended.
    Undo: none; what is dead stays dead.
    """

    id: ClassVar[str] = "store.kill"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (PIDFD,)
    stands_for: ClassVar[str] = (
        "the node of the coordinator lost, a launcher killed by the out-of-memory killer or by its scheduler"
    )
    does_not_certify: ClassVar[str] = "a store that is cut off by the network while its host lives on (net.*)"
    expects: ClassVar[str | None] = "crash"

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        host, why_not = host_of(victim)
        if host is None:
            return Evidence(why_not, False)
        # Told first: nothing can be read of a process that is gone.
        sent = told(host, victim, Evidence("", True))
        killed = send_signal(as_victim(host, victim), signal.SIGKILL)
        return Evidence(sent.what + killed.what, killed.proven, data={**sent.data, **killed.data})

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        host = host_in(fired, victim)
        if host is None:
            return Evidence("no host was killed", False)
        return verify_gone(host, timeout_s=5.0)
