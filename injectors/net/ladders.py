"""The mechanisms of the network family, each said once."""

from __future__ import annotations

import functools

from injectors.fault import Mechanism
from injectors.net import dockernet
from injectors.net.abilities import destroy_missing, link_missing, nft_missing, qdisc_missing, relay_missing

_WIRE = "as across a router: no error, no reset, ARP still answers; IPv4 only"


def nft(fidelity: str = _WIRE, rule: str = "counter drop") -> Mechanism:
    """Rules of nftables in the node's namespace, tried with `rule`."""
    return Mechanism(name="nft", fidelity=fidelity, probe=functools.partial(nft_missing, rule))


def tc(qdisc: str, fidelity: str) -> Mechanism:
    """A qdisc on the node's interface. `qdisc`: its kind and the parameters that it is tried with."""
    name = f"tc {qdisc.split()[0]}"
    return Mechanism(name=name, fidelity=fidelity, probe=functools.partial(qdisc_missing, qdisc))


def packet_relay(fidelity: str) -> Mechanism:
    """A process that every packet goes through, by a pair of virtual interfaces."""
    whole = f"{fidelity}; every packet of connections old and new, in user space; may add a millisecond"
    return Mechanism(name="packet relay", fidelity=whole, probe=relay_missing)


IP_LINK = Mechanism(
    name="ip link",
    fidelity="the node's own interface is down: its kernel knows, its senders get errors, the peers do not",
    probe=link_missing,
)
DOCKER_NETWORK = Mechanism(
    name="docker network",
    fidelity="the daemon takes the interface away: the node's kernel knows, the peers do not",
    probe=dockernet.missing,
)
SS_KILL = Mechanism(
    name="ss -K",
    fidelity=(
        "the node's kernel destroys the socket: the peer gets a true RST, the node's own end ECONNABORTED "
        "instead of ECONNRESET"
    ),
    probe=destroy_missing,
)
