"""Which technique of `ai-cluster-chaos-fidelity` each fault is, resembles, or has none of.

Its layers and techniques are names of that package's format, version 1.0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Match:
    """A fault's place in the format.

    Attributes:
        layer: one of the format's eight.
        technique: one of its list.
        wanted: what the experiment is about, in words; the linter reads them.
        differs: in what the fault is not the technique itself, "" where it is.
    """

    layer: str
    technique: str
    wanted: str
    differs: str = ""

    @property
    def exact(self) -> bool:
        """Whether the fault is the technique itself."""
        return not self.differs

    @property
    def physical(self) -> bool:
        """Whether the format wants it barred from planners that act by themselves."""
        return self.technique in ("gpu-burn", "chaosd-nic", "ib-link-down")


def _death(wanted: str, differs: str = "") -> Match:
    return Match("training-graph", "process-kill", wanted, differs)


def _stall(wanted: str, differs: str = "") -> Match:
    return Match("training-graph", "cpu-sleep", wanted, differs)


_VETH = (
    "the technique is tc or netem on a pod's interface; here {} on the interface of a node's own namespace"
)


def _overlay(wanted: str, by: str = "nftables") -> Match:
    return Match("overlay-network", "networkchaos-overlay", wanted, _VETH.format(by))


_AT_REST = "the technique goes through a volume's driver; here the file itself is changed where it lies"
_ON_WRITE = "the technique goes through a volume's driver; here the job's own writes are met on their way"


TECHNIQUES: Mapping[str, Match] = {
    "process.kill": _death("rank death: a worker process is gone"),
    "process.segv": _death(
        "rank death by a segmentation fault", "another signal, with the process's own handlers"
    ),
    "process.abort": _death("rank death by an abort", "another signal"),
    "process.term": _death("rank death after a notice", "SIGTERM, which the rank may handle"),
    "process.exit": _death("rank death by its own exit", "the rank leaves by itself, with an exit code"),
    "process.stop": _stall("frozen rank, a straggler that never comes back"),
    "process.gil_lock": _stall(
        "straggler whose interpreter is held", "one C call holds the interpreter, threads of C++ go on"
    ),
    "collective.hang": _stall("CPU desync: one rank does not arrive at a collective"),
    "collective.delay": _stall("straggler: one rank arrives late at a collective"),
    "data.slow": _stall("straggler in the data loader"),
    "data.worker_kill": _death("worker death in a data loader"),
    "store.kill": Match(
        "control-plane", "process-kill", "death of the process that hosts the rendezvous store"
    ),
    "store.stop": Match(
        "control-plane",
        "pod-failure",
        "the rendezvous store stops answering",
        "one process is paused, not its pod",
    ),
    "net.partition": _overlay("partition between groups of nodes"),
    "net.drop_one_way": _overlay("packets lost in one direction only"),
    "net.loss": _overlay("packet loss between nodes"),
    "net.delay": _overlay("delay between nodes", "a qdisc or a relay"),
    "net.bandwidth": _overlay("bandwidth limit between nodes", "a qdisc or a relay"),
    "net.reset": _overlay("connections between nodes are reset"),
    "net.half_open": _overlay("connections that one side believes open"),
    "net.link_down": _overlay("a node's interface goes down", "the link's own state"),
    "node.isolate": _overlay("one node is cut off from all others"),
    "node.kill": Match(
        "orchestration", "pod-kill", "a whole node is gone at once", "a namespace or container, not a pod"
    ),
    "node.preempt": Match(
        "orchestration",
        "pod-kill",
        "a node is taken away after a notice",
        "notice and grace come first, then a namespace or container is killed, not a pod",
    ),
    "host.cpu_throttle": Match(
        "orchestration",
        "stresschaos",
        "a rank starved of processor time by its host",
        "a quota, not a competitor",
    ),
    "host.memory": Match(
        "orchestration",
        "stresschaos",
        "the kernel's OOM killer ends a rank",
        "a lower limit, not a competitor",
    ),
    "host.clock": Match("orchestration", "timechaos", "one process sees a wall clock that is off"),
    "storage.enospc": Match(
        "data-artifacts", "iochaos", "no space left while a checkpoint is written", _ON_WRITE
    ),
    "storage.eio": Match(
        "data-artifacts", "iochaos", "input/output error while a checkpoint is written", _ON_WRITE
    ),
    "storage.slow": Match("data-artifacts", "iochaos", "slow storage under a checkpoint", _ON_WRITE),
    "storage.torn": Match("data-artifacts", "iochaos", "checkpoint written in part", _AT_REST),
    "storage.bitflip": Match(
        "data-artifacts", "iochaos", "silent corruption of a checkpoint at rest", _AT_REST
    ),
    "storage.truncate": Match("data-artifacts", "iochaos", "checkpoint cut short at rest", _AT_REST),
    "gpu.contend": Match(
        "accelerator",
        "gpu-burn",
        "another tenant loads the same GPU",
        "a burner with a duty cycle, not full load",
    ),
}

_PROGRAM = "a fault in the program's own logic; the format knows faults of its surroundings"
_SILENT = "silent data corruption is outside the format, as its authors say"
_DEVICE = "no technique acts on one process's use of a device"

UNMAPPED: Mapping[str, str] = {
    "process.exception": _PROGRAM,
    "process.oom": "the allocation of one process fails; `stresschaos` is pressure on a whole container",
    "collective.error": "an error inside the collective library; no technique reaches it",
    "collective.skip": "a desync by program logic; the format's desync is a stalled processor",
    "collective.extra": "a desync by program logic; the format's desync is a stalled processor",
    "collective.mismatch": _PROGRAM,
    "collective.corrupt": _SILENT,
    "numeric.bitflip": _SILENT,
    "numeric.nan": _SILENT,
    "numeric.scale": _PROGRAM,
    "data.bad_batch": _PROGRAM,
    "store.delay": "the store's answers are late, not the network to it",
    "store.stale_key": _PROGRAM,
    "gpu.clock_lock": "the format wants a power or clock fault by DCGM or by load; this sets it by NVML",
    "gpu.power_cap": "the format wants a power or clock fault by DCGM or by load; this sets it by NVML",
    "gpu.mem_hog": _DEVICE,
    "gpu.stuck_kernel": _DEVICE,
    "gpu.device_assert": _DEVICE,
    "gpu.xid_sim": "the format wants an Xid by DCGM injection; this one is simulated in a library",
    "node.return": "the end of another fault, not one of its own",
}
