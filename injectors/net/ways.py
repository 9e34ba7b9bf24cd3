"""What a mechanism of the network family does, and the questions that decide whether it is there.

A fault lists its ways best first. The first that works on this machine and with these nodes is taken; what is
found in its way there is a refusal, not a reason to take the next.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from injectors.fault import Mechanism
from injectors.net import space
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


_TRY_S = 20.0


def _try(script: str) -> str | None:
    """Run a shell script in a network namespace that ends with it; None if it worked, else its last words."""
    space.tool_path()
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", script]
    if _run(words) is None:
        return None
    # Some distributions forbid user namespaces to all but root, who needs none.
    return _run(["unshare", "--net", "sh", "-ec", script])


def _run(words: list[str]) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[0] if lines else f"exit code {done.returncode}"


def _installed(command: str, package: str) -> str | None:
    space.tool_path()
    if shutil.which(command) is None:
        return f"the command {command} is not installed\n  mend: apt install {package}"
    return None


@functools.cache
def nft_missing(rule: str) -> str | None:
    """None where nft takes a rule in a namespace of one's own; else what is missing."""
    if said := _installed("nft", "nftables"):
        return said
    chain = "type filter hook prerouting priority -300;"
    said = _try(f"printf 'table inet t {{\\n chain c {{ {chain} {rule}\\n }}\\n}}\\n' | nft -f -")
    return said and f"the kernel does not take the nft rule {rule!r} ({said})\n  mend: run as root, or a kernel with it"


@functools.cache
def qdisc_missing(words: str) -> str | None:
    """None where the kernel has a qdisc; else what is missing."""
    if said := _installed("tc", "iproute2"):
        return said
    said = _try(f"tc qdisc add dev lo root {words}")
    name = words.split()[0]
    return said and f"the kernel has no qdisc {name} ({said})\n  mend: a kernel with CONFIG_NET_SCH_{name.upper()}"


@functools.cache
def relay_missing() -> str | None:
    """None where virtual interfaces can be made and read; else what is missing."""
    if said := _installed("ip", "iproute2"):
        return said
    said = _try("ip link add veth_a type veth peer name veth_b")
    return said and f"no pair of virtual interfaces can be made ({said})\n  mend: run as root, or a kernel with veth"


@functools.cache
def link_missing() -> str | None:
    """None where an interface can be set down; else what is missing."""
    if said := _installed("ip", "iproute2"):
        return said
    said = _try("ip link set lo up; ip link set lo down")
    return said and f"an interface can't be set down ({said})\n  mend: run as root"


@functools.cache
def destroy_missing() -> str | None:
    """None where the kernel destroys a socket when it is told to; else what is missing."""
    if said := _installed("ss", "iproute2"):
        return said
    program = (
        "import socket as s, subprocess as p; l = s.create_server((\"127.0.0.1\", 0)); "
        "c = s.create_connection(l.getsockname()); a, n = c.getsockname(); "
        "p.run([\"ss\", \"-K\", \"-t\", \"src\", f\"{a}:{n}\"], check=True, stdout=-3, stderr=-3)\n"
        "try: c.send(b\"x\")\n"
        "except OSError: raise SystemExit(0)\n"
        "raise SystemExit(\"the connection is still there\")"
    )
    import sys

    said = _try(f"ip link set lo up; {sys.executable} -I -S -c '{program}'")
    return said and f"ss -K destroys no socket ({said})\n  mend: a kernel with CONFIG_INET_DIAG_DESTROY"
