"""What a target is: one way to run training so that it can be broken and judged.

To bring a recovery system of your own, write one file with a subclass of `Target` named `Target`, and name
the file in the suite (`target: {kind: custom, file: mine.py, world: 4}`). Five things are asked of it:

- **start**: `start(launch)` runs the training and returns a `Running`. Use `launch.env` as it is: it carries
  the run's marker, by which everything that is left over is found.
- **commit marker**: who says that a step is committed. `step_source = "agent"`: the agent, which watches the
  optimizers of an unchanged script. `step_source = "recovery"`: the target itself, by appending `step.commit`
  events to the file `launch.events` (docs/events.md has the vocabulary).
- **state digest**: `digests` says whether those commits carry digests of the state, which bitwise checks
  need.
- **restart semantics**: `restart` says what a recovery does to healthy ranks: `"in_place"` leaves their
  processes alone, `"whole_job"` starts all of them again, from a checkpoint.
- **stop**: `Running.stop()` ends everything that was started, by force.

A job that is already running is no target of this kind: `torch-chaos attach` breaks it from outside.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from chaos.clusters.base import Cluster
from chaos.clusters.running import End, Running
from chaos.errors import Refused

__all__ = ["End", "Launch", "Post", "Running", "Setting", "Target"]


@dataclass(frozen=True)
class Launch:
    """Everything about one start.

    Attributes:
        env: the complete environment: the run's marker, a private TMPDIR, the agent unless this is a twin
        without it.
        events: the file that events are appended to, one JSON object a line.
        seed: the training's seed.
        work: a folder for this start alone, removed with the run; what `{work}` stands for.
        stdout, stderr: open descriptors for the output.
        digest: whether commits should carry state digests.
    """

    env: Mapping[str, str]
    events: Path
    seed: int
    work: Path
    stdout: int
    stderr: int
    digest: bool = True


@dataclass(frozen=True)
class Post:
    """One node's place in a job that is started on each node of a cluster.

    Attributes:
        cluster: the nodes.
        index: this one; node 0 hosts what the job needs one of.
        nodes: how many there are.
        per_node: ranks on each.
        address, port: where node 0 listens.
        token: the job's secret, a file that every node can read.
    """

    cluster: Cluster
    index: int
    nodes: int
    per_node: int
    address: str
    port: int
    token: Path


@dataclass(frozen=True)
class Setting:
    """What a target is made for.

    Attributes:
        spec: the scenario's complete target, from the plan.
        folder: where the suite's relative paths start.
        run_env: the environment that everything of the run starts from; holds the marker.
    """

    spec: Mapping[str, Any]
    folder: Path
    run_env: Mapping[str, str] = field(default_factory=dict)


class Target(ABC):
    """One way to run training. Made once a scenario; constructing does nothing, `check` looks, `start`
    acts."""

    step_source: ClassVar[Literal["recovery", "agent"]] = "agent"
    digests: ClassVar[bool] = True
    restart: ClassVar[Literal["in_place", "whole_job"]] = "whole_job"

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.spec = setting.spec

    def check(self) -> None:  # noqa: B027  # a target with nothing to check is complete
        """Refuse what cannot work before anything is started.

        Raises:
            UserError: a file that is not there, a command that cannot be found.
            Refused: a missing privilege or capability.
        """

    def files(self) -> list[Path]:
        """The files that decide what is trained: their content is part of the twin's identity."""
        return []

    def prepare(self) -> None:  # noqa: B027  # most have nothing that outlives one start
        """Start what is shared by all starts of a run, before a scenario's own clock and leak check begin.

        Raises:
            TargetFailed: it could not be started.
        """

    @abstractmethod
    def start(self, launch: Launch) -> Running:
        """Run the training.

        Raises:
            TargetFailed: it could not be started.
        """

    def start_on(self, post: Post, launch: Launch) -> Running:
        """Run this target's part of the training on one node of a cluster; called once for each node, and
        again when a node returns.

        Raises:
            TargetFailed: it could not be started.
            Refused: this kind of target knows no nodes.
        """
        raise Refused(f"a target of kind {self.spec['kind']!r} runs on one host", "remove `cluster:`")
