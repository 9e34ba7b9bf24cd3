"""From judged scenarios to the report's plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.judge import ScenarioVerdict

NOT_FIXED_BY_SEED = (
    "timing: when the operating system schedules processes, so which instruction a fault lands on",
    "process ids, port numbers, addresses",
    "how far healthy ranks are ahead of each other when a fault strikes",
)


def build(
    plan: Mapping[str, object],
    results: Sequence[ScenarioVerdict],
    environment: Mapping[str, object],
    *,
    exit_code: int,
    wall_s: float,
    replay: str,
    plan_hash: str | None = None,
    not_fixed_by_seed: Sequence[str] = NOT_FIXED_BY_SEED,
) -> dict[str, object]:
    """The content of ``report.json``.

    Args:
        plan: the plan as plain data.
        results: one judged scenario each, in the plan's order.
        environment: versions, machine, command: whatever a reader needs to reproduce.
        exit_code: of the whole run, from `chaos.judge.exit_code`.
        wall_s: duration of the run in seconds.
        replay: one command that runs the same plan again.
        plan_hash: sha256 hex of the plan's canonical JSON; computed from `plan` if None.
        not_fixed_by_seed: what a second run with this seed may do differently.
    """
    raise NotImplementedError
