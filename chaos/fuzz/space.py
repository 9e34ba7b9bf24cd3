"""What a suite lets be drawn: its jobs, and for each job faults, moments, roles and the cells made of them.
Pure data; `chaos.fuzz.build` makes it from a suite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.report.coverage import Cell, phase_of

RANK_0, ANOTHER_RANK = "rank 0", "another rank"
NODE_0, ANOTHER_NODE = "node 0", "another node"
PLACES = (("rank", RANK_0, ANOTHER_RANK), ("node", NODE_0, ANOTHER_NODE))
"""Keys of `where`, and the roles of number 0 and of the others."""


@dataclass(frozen=True)
class Moment:
    """One way to be in a phase.

    Attributes:
        when: as in a suite, with no step; `after_s` is a range [lowest, highest] in seconds.
        stepped: whether a step is drawn for it.
        follows: whether `after_s` counts from another fault.
        after_loss: whether it comes only when a rank was lost before.
    """

    when: Mapping[str, Any]
    stepped: bool = True
    follows: bool = False
    after_loss: bool = False

    @property
    def phase(self) -> str:
        """What the coverage table calls it."""
        return phase_of({**self.when, "step": 0} if self.stepped else self.when)


@dataclass(frozen=True)
class Kind:
    """What the drawing has to know of a fault.

    Attributes:
        recipes: its `for` and `with`, as the suite gives them; one is chosen.
        loud: whether a rank is lost by it.
        alone: whether it is the only fault of its plan.
        of_nodes: whether it strikes nodes.
        drawn: its parameters that are drawn where a recipe gives none: name, lowest, highest.
    """

    name: str
    recipes: tuple[Mapping[str, Any], ...] = ({},)
    loud: bool = True
    alone: bool = False
    of_nodes: bool = False
    drawn: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True)
class Job:
    """One target of the suite, and what can be drawn for it.

    Attributes:
        name: what it is called in the log; unique in a space.
        target: complete, as in a plan.
        bounds: the loosest that the suite states for it, as a suite writes them.
        quiet: whether its faults must lead to no recovery.
        steps: the first and the last step at which a fault may strike.
        node_steps: the same for faults of nodes.
        most: faults in one plan, at most.
        moments: by phase, as `chaos.report.coverage` names them.
        kinds: by fault.
        cells: everything that can be drawn here.
    """

    name: str
    target: dict[str, Any]
    bounds: Mapping[str, str]
    quiet: bool
    steps: tuple[int, int]
    node_steps: tuple[int, int]
    most: int
    moments: Mapping[str, tuple[Moment, ...]]
    kinds: Mapping[str, Kind]
    cells: tuple[Cell, ...]

    @property
    def world(self) -> int:
        """Number of ranks."""
        return int(self.target["world"])

    @property
    def nodes(self) -> int:
        """Number of nodes; 1 without a cluster."""
        return int((self.target.get("cluster") or {"nodes": 1})["nodes"])

    def losses(self) -> tuple[Cell, ...]:
        """Cells that can stand before a fault that strikes in a recovery: a rank is lost in a step."""
        return tuple(
            cell
            for cell in self.cells
            if cell.role in (RANK_0, ANOTHER_RANK)
            and self.kinds[cell.fault].loud
            and not self.kinds[cell.fault].alone
            and all(moment.stepped and not moment.after_loss for moment in self.moments[cell.phase])
        )


@dataclass(frozen=True)
class Aim:
    """A cell of one job: what a round is steered to."""

    job: str
    cell: Cell

    def __str__(self) -> str:
        return f"{self.cell.fault} {self.cell.phase} {self.cell.role}"


@dataclass(frozen=True)
class Space:
    """Everything that can be drawn.

    Attributes:
        suite: the suite's name.
        left_out: what is not drawn, and why, a line each.
    """

    suite: str
    jobs: tuple[Job, ...]
    left_out: tuple[str, ...] = ()
    aims: tuple[Aim, ...] = field(init=False)

    def __post_init__(self) -> None:
        aims = tuple(Aim(job.name, cell) for job in self.jobs for cell in job.cells)
        object.__setattr__(self, "aims", aims)

    def job(self, name: str) -> Job:
        """A job by its name."""
        return next(job for job in self.jobs if job.name == name)
