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


@dataclass(frozen=True, slots=True)
class SimFault:
    """One fault. `where` is `{"rank": n}` or `{"role": name}`; `when` as in suites.

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
        collectives: how many of them a step issues.
        limits: fields of `recovery.core.config.Config` that differ from `LIMITS`.
        schedule: "uniform", or "pct" (random priorities with `changes` demotions on the way).
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

    def config(self) -> Config:
        """The limits that the coordinator obeys."""
        return Config(world_size=self.world, spares=self.spares, **{**LIMITS, **self.limits})  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as it stands in a plan file."""
        return {"version": VERSION, "kind": KIND, **asdict(self), "faults": [asdict(f) for f in self.faults]}

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
            if fault.name not in NAMES:
                raise UserError(f"the simulator has no fault {fault.name!r}", f"one of {', '.join(NAMES)}")
        return plan
