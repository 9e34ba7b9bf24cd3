"""What one simulated run is: pure data, every choice that the run does not draw from its seed.

Names, places and moments of faults are those of suites (`process.kill`, `{"rank": 1}`, `{"event":
"recovery.transfer"}`), so a plan can be taken to real processes and back (`chaos.simulation.real`). A few
names exist only here; `SIMULATED_ONLY` says which and why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from chaos.errors import UserError
from recovery.core.config import Config

VERSION = 1
KIND = "simulation"

REAL = (
    "process.kill",
    "process.stop",
    "process.exception",
    "process.exit",
    "collective.hang",
    "collective.delay",
    "collective.error",
    "collective.skip",
    "collective.extra",
    "collective.corrupt",
    "numeric.bitflip",
    "net.partition",
    "net.delay",
    "net.loss",
)
SIMULATED_ONLY = {
    "net.duplicate": "a message arrives twice, the second time late: a private channel never does that",
    "process.linger": "a dead process can't be reaped for a while (uninterruptible sleep)",
    "process.deaf": "a release has no effect on a member that waits: it comes out late by itself",
    "workload.busy": "no fault: a long phase that the training script has declared",
}
NAMES = (*REAL, *SIMULATED_ONLY)
REAL_ON_NODES = (
    "node.kill",
    "node.preempt",
    "node.isolate",
    "node.return",
    "process.kill",
    "process.stop",
    "net.partition",
    "net.drop_one_way",
    "net.delay",
    "net.loss",
    "net.reset",
    "host.cpu_throttle",
)
"""Faults of nodes. With `where: {"node": n}` a `process` fault means the node's supervisor."""
SIMULATED_ONLY_ON_NODES = {
    "node.freeze": "a whole machine stands still and goes on, as a virtual machine does when it is moved",
    "clock.drift": "a node's clock runs at another rate than the coordinator's, as far as is allowed",
}
NODE_NAMES = (*REAL_ON_NODES, *SIMULATED_ONLY_ON_NODES)
ALL_NAMES = tuple(dict.fromkeys((*NAMES, *NODE_NAMES)))
NETWORK = ("net.delay", "net.loss", "net.duplicate")
"""Faults of the control channel. One node's private channels do none of this."""

# The limits that simulated jobs obey: those of real jobs, with the long ones shortened.
LIMITS: dict[str, float] = {
    "hang_min_s": 0.4,
    "cold_limit_s": 1.5,
    "start_limit_s": 3.0,
    "form_limit_s": 1.5,
    "rerelease_s": 0.02,
}
NODE_LIMITS: dict[str, float] = {
    "rerelease_s": 0.05,
    "lease_s": 0.6,
    "beat_s": 0.1,
    "lease_margin_s": 0.1,
    "clock_drift": 0.05,
    "probe_limit_s": 0.3,
    "reprobe_s": 0.3,
    "node_wait_s": 5.0,
}
"""Those of jobs on several nodes, in the same proportions as real ones."""


@dataclass(frozen=True, slots=True)
class SimFault:
    """One fault. `where` is `{"rank": n}`, `{"role": name}` or `{"node": n}`; `when` as in suites.

    Attributes:
        duration_s: how long it lasts, in virtual seconds; None for what has no end or is over at once.
        params: what else the fault takes.
    """

    id: str
    name: str
    where: dict[str, Any]
    when: dict[str, Any]
    duration_s: float | None = None
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SimPlan:
    """One simulated run. The same plan gives the same history, byte for byte.

    Attributes:
        spares: waiting processes, on each node.
        collectives: how many of them a step issues.
        limits: fields of `recovery.core.config.Config` that differ from `LIMITS`.
        schedule: "uniform", or "pct" (random priorities with `changes` demotions on the way).
        nodes: how many; the coordinator is on number 0.
    """

    seed: int
    world: int = 4
    spares: int = 1
    steps: int = 8
    collectives: int = 2
    faults: tuple[SimFault, ...] = ()
    limits: dict[str, float] = field(default_factory=dict)
    schedule: str = "uniform"
    changes: int = 0
    nodes: int = 1

    def config(self) -> Config:
        """The limits that the coordinator obeys."""
        limits: dict[str, Any] = dict(LIMITS)
        if self.nodes > 1:
            limits |= {**NODE_LIMITS, "nodes": self.nodes, "min_nodes": self.nodes // 2 + 1}
        return Config(world_size=self.world, spares=self.spares, **{**limits, **self.limits})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in a plan file."""
        data = {"version": VERSION, "kind": KIND, **asdict(self), "faults": [asdict(f) for f in self.faults]}
        if self.nodes == 1:
            del data["nodes"]  # a plan for one node has the spelling, and so the hash, that it always had
        return data

    def to_json(self) -> str:
        """One spelling for equal plans."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SimPlan:
        """A plan from plain data.

        Raises:
            UserError: not a simulated plan of this version, or it names what does not exist.
        """
        if data.get("kind") != KIND or data.get("version") != VERSION:
            raise UserError(
                f"not a simulated plan of version {VERSION}: {data.get('kind')!r} {data.get('version')!r}",
                "give a plan that `torch-chaos simulate` wrote",
            )
        known = {f.name for f in fields(cls)}
        try:
            given = {key: value for key, value in data.items() if key in known}
            faults = tuple(SimFault(**fault) for fault in data["faults"])
            plan = cls(**{**given, "faults": faults})
            plan.config()
        except (KeyError, TypeError) as error:
            raise UserError(f"the plan is damaged: {error}", "write it again") from None
        for fault in plan.faults:
            if fault.name not in (NAMES if plan.nodes == 1 else ALL_NAMES):
                known_names = ", ".join(NAMES if plan.nodes == 1 else ALL_NAMES)
                raise UserError(f"the simulator has no fault {fault.name!r}", f"one of {known_names}")
            if not 0 <= int(fault.where.get("node", 0)) < plan.nodes:
                raise UserError(
                    f"{fault.id}: there is no node {fault.where['node']}", f"0 to {plan.nodes - 1}"
                )
        return plan
