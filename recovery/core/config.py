"""Limits that the protocol obeys. All times in seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Config:
    """What one job allows before it acts or gives up."""

    world_size: int
    spares: int = 1
    max_restarts: int = 100
    """Global budget: losses and regroups of the whole job, counted once at the coordinator."""
    max_same_failure: int = 3
    """The same rank failing in the same way at the same committed version: deterministic, so stop."""
    max_without_progress: int = 12
    """Losses and regroups in a row with no new job-committed step between them."""

    stop_grace_s: float = 0.1
    """A stopped process (SIGSTOP, a debugger) that continues within this time is forgiven."""
    hang_min_s: float = 1.0
    """Never accuse a rank of a hang sooner than this (healthy arrival skew reached 160 ms)."""
    hang_factor: float = 8.0
    """Limit for a late rank: this many step times, as they are at the present pace (`core.pace`)."""
    cold_limit_s: float = 30.0
    """Limit for a rank that has not yet committed a step in this process (compilation, first batch)."""
    start_limit_s: float = 120.0
    """From a process's start to its first report that it is ready (imports, building the model)."""
    form_limit_s: float = 10.0
    """From the opening of a generation to the last member's report that it is formed."""
    rerelease_s: float = 0.01
    """A survivor that has not come out of the old generation is released again this often."""

    nodes: int = 1
    """Nodes of the job. All that follows is about jobs of several nodes."""
    min_nodes: int = 1
    """No generation is opened with fewer nodes. More than half of them, so that a minority never goes on."""
    max_per_node: int | None = None
    """Ranks that one node may hold when others are lost; None: as many as there are."""
    lease_s: float = 2.0
    """A node that has not been granted a beat for this long has ended all its processes."""
    beat_s: float = 0.2
    """How often a node asks."""
    lease_margin_s: float = 0.3
    """A node ends its processes this long before its lease is over: killing takes time."""
    clock_drift: float = 0.01
    """How much faster a node's clock may run than the coordinator's, as a share."""
    probe_limit_s: float = 1.0
    """A node that has not answered a probe by then is left to its lease."""
    reprobe_s: float = 1.0
    """A node that some other node can't reach is tried again this often."""
    node_wait_s: float = 300.0
    """How long the job waits for nodes that it can't do without."""

    def hang_limit_s(self, step_s: float | None, warm: bool) -> float:
        """How late a rank may be before it is accused."""
        if not warm or step_s is None:
            return max(self.cold_limit_s, self.hang_min_s)
        return max(self.hang_min_s, self.hang_factor * step_s)
