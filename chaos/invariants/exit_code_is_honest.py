"""The job says 0 exactly if every rank committed every planned step."""

from __future__ import annotations

from chaos.history import History
from chaos.invariants.finding import Finding, Offences, held, too_thin
from chaos.invariants.invariant import invariant
from chaos.invariants.scene import Scene
from chaos.records import int_of, text_of


@invariant(sources=["I-EXITCODE", "I-TERMINATE", "I-FALLBACK"])
def exit_code_is_honest(history: History, reference: History | None, scene: Scene) -> Finding:
    """Exit code 0 with all planned steps committed by all ranks, or another code and a reason.

    A scenario that is meant to end the job states the code (``expect.exit_code``). A target that the
    tool had to stop says nothing about its own honesty.

    Smallest break: exit code 0 with the last step missing on one rank.
    """
    exits, ends = history.of("target.exit"), history.of("job.end")
    code = int_of(exits[-1], "code") if exits else int_of(ends[-1], "exit_code") if ends else None
    signal = int_of(exits[-1], "signal") if exits else None
    if stopped_by_tool(history):
        if scene.is_meant_to_end:
            offences = Offences()
            offences.add(f"the job did not end; the scenario expects exit code {scene.exit_code}")
            return offences.finding()
        return too_thin("the tool had to stop the target")
    if code is None and signal is None:
        return too_thin("nobody recorded how the target ended")
    lagging = unfinished(history, reference, scene)
    if lagging is None:
        return too_thin("the number of planned steps is not known")
    said = f"signal {signal}" if code is None else f"exit code {code}"
    offences = Offences()
    if code == 0 and lagging:
        rank, step = lagging[0]
        offences.add(f"exit code 0, but rank {rank} committed only up to step {step}")
    if code != 0 and not lagging:
        offences.add(f"{said}, although every rank committed every planned step")
    if scene.exit_code is not None and code != scene.exit_code:
        offences.add(f"{said}, the scenario expects {scene.exit_code}")
    if ends and exits and int_of(ends[-1], "exit_code") != code:
        offences.add(f"job.end says {int_of(ends[-1], 'exit_code')}, the process ended with {said}")
    if code != 0 and ends and not (text_of(ends[-1], "reason") or text_of(ends[-1], "detail")):
        offences.add(f"{said}, and no reason was given")
    return offences.finding_or(held(said))


def unfinished(history: History, reference: History | None, scene: Scene) -> list[tuple[int, int]] | None:
    """(rank, highest committed step) of the ranks that lack planned steps; None if unknown how many."""
    steps = scene.steps
    if steps is None and reference is not None:
        steps = max(reference.commits_by_step, default=-1) + 1
    if not steps:
        return None
    ranks = range(scene.world) if scene.world is not None else history.ranks
    highest = {rank: _highest(history, rank) for rank in ranks}
    return [(rank, step) for rank, step in highest.items() if step < steps - 1]


def _highest(history: History, rank: int) -> int:
    """The highest step of which the rank held the state; -1 if none.

    A successor that joins when all is done commits nothing: it received the state (version = steps held).
    """
    committed = [commit.step for commit in history.commits(rank)]
    received = [
        version - 1
        for event in history.of("state.receive")
        if int_of(event, "rank") == rank
        and event.get("verified") is True
        and (version := int_of(event, "version")) is not None
    ]
    return max([*committed, *received], default=-1)


def stopped_by_tool(history: History) -> bool:
    """Whether the engine itself ended the target (time ran out, or the user stopped the run)."""
    return any(
        event.get("expected") is True or event.get("timed_out") is True
        for event in history.of("target.exit")
        if int_of(event, "code") != 0
    )
