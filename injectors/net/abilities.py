"""What this machine can do, tried in a network namespace that ends with the trial.

Each answer is None where it works, else what is missing and how to get it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys

from injectors.net import space

_TRY_S = 20.0


def _try(script: str) -> str | None:
    """Run a shell script in a network namespace that ends with it; None if it worked, else its last words."""
    if shutil.which("unshare", path=space.search_path()) is None:
        return "unshare is not installed"
    words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", script]
    if _run(words) is None:
        return None
    # Some distributions forbid user namespaces to all but root, who needs none.
    return _run(["unshare", "--net", "sh", "-ec", script])


def _run(words: list[str]) -> str | None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TRY_S, env=space.environment(), check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return lines[0] if lines else f"exit code {done.returncode}"


def _installed(command: str, package: str) -> str | None:
    if shutil.which(command, path=space.search_path()) is None:
        return f"the command {command} is not installed\n  mend: apt install {package}"
    return None


@functools.cache
def nft_missing(rule: str) -> str | None:
    """None where nft takes a rule in a namespace of one's own; else what is missing."""
    if said := _installed("nft", "nftables"):
        return said
    chain = "type filter hook prerouting priority -300;"
    said = _try(f"printf 'table inet t {{\\n chain c {{ {chain} {rule}\\n }}\\n}}\\n' | nft -f -")
    return (
        said
        and f"the kernel does not take the nft rule {rule!r} ({said})\n"
        "  mend: run as root, or a kernel that has it"
    )


@functools.cache
def qdisc_missing(words: str) -> str | None:
    """None where the kernel has a qdisc; else what is missing."""
    if said := _installed("tc", "iproute2"):
        return said
    said = _try(f"tc qdisc add dev lo root {words}")
    name = words.split()[0]
    return (
        said
        and f"the kernel has no qdisc {name} ({said})\n  mend: a kernel with CONFIG_NET_SCH_{name.upper()}"
    )


@functools.cache
def relay_missing() -> str | None:
    """None where virtual interfaces can be made and read; else what is missing."""
    if said := _installed("ip", "iproute2"):
        return said
    said = _try("ip link add veth_a type veth peer name veth_b")
    return (
        said
        and f"no pair of virtual interfaces can be made ({said})\n  mend: run as root, or a kernel with veth"
    )


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
        'import socket as s, subprocess as p; l = s.create_server(("127.0.0.1", 0)); '
        "c = s.create_connection(l.getsockname()); a, n = c.getsockname(); "
        'p.run(["ss", "-K", "-t", "src", f"{a}:{n}"], check=True, stdout=-3, stderr=-3)\n'
        'try: c.send(b"x")\n'
        "except OSError: raise SystemExit(0)\n"
        'raise SystemExit("the connection is still there")'
    )
    said = _try(f"ip link set lo up; {sys.executable} -I -S -c '{program}'")
    return said and f"ss -K destroys no socket ({said})\n  mend: a kernel with CONFIG_INET_DIAG_DESTROY"
