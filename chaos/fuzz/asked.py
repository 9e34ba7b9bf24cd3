"""What is asked for beside the suite: further faults and phases, by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chaos.errors import UserError
from chaos.suite.load import did_you_mean
from chaos.suite.model import PHASES, RECOVERY_PHASES
from injectors.fault import Fault


@dataclass(frozen=True)
class Asked:
    """What the user asks for beside the suite.

    Attributes:
        faults: ids of further faults, for every job.
        phases: further phases, for every job.
        most: faults in one plan, at most; None for as many as the suite's scenarios have, up to `MOST`.
    """

    faults: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    most: int | None = None


def named_faults(text: str, catalogue: Mapping[str, type[Fault]]) -> tuple[str, ...]:
    """Faults by name or by family: `process,collective.hang`.

    Raises:
        UserError: there is no such fault or family.
    """
    families = {name.partition(".")[0] for name in catalogue}
    found: dict[str, None] = {}
    for word in filter(None, text.split(",")):
        if word not in catalogue and word not in families:
            mend = did_you_mean(word, [*families, *catalogue]) or f"families: {', '.join(sorted(families))}"
            raise UserError(f"--faults: unknown fault {word!r}", mend)
        found |= dict.fromkeys(name for name in catalogue if word in (name, name.partition(".")[0]))
    return tuple(found)


def named_phases(text: str) -> tuple[str, ...]:
    """Phases by name, `recovery` for those of a recovery, or `all`.

    Raises:
        UserError: there is no such phase.
    """
    groups = {"recovery": RECOVERY_PHASES, "all": PHASES}
    found: dict[str, None] = {}
    for word in filter(None, text.split(",")):
        if word not in groups and word not in PHASES:
            raise UserError(f"--phases: unknown phase {word!r}", f"some of {', '.join((*groups, *PHASES))}")
        found |= dict.fromkeys(groups.get(word, (word,)))
    return tuple(found)
