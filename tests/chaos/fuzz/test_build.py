"""What a suite lets be drawn."""

from __future__ import annotations

import pytest

from chaos.errors import UserError
from chaos.fuzz.asked import Asked
from chaos.fuzz.space import Space
from chaos.report.coverage import Cell
from chaos.suite.find import shipped
from tests.chaos.fuzz.spaces import SMALL, space

HEAD = SMALL.partition("scenarios:")[0] + "scenarios:\n"


def scenario(fault: str, more: str = "", name: str = "s") -> str:
    return f"  - {{name: {name}, faults: [{fault}]{more}}}\n"


def cells(of: Space) -> set[tuple[str, str, str]]:
    return {(aim.cell.fault, aim.cell.phase, aim.cell.role) for aim in of.aims}


def test_faults_phases_and_roles_of_a_job_are_combined() -> None:
    made = space()
    (job,) = made.jobs
    assert (job.name, job.most, job.steps) == ("tiny_gpt", 2, (1, 26))
    steps = {
        ("process.kill", p, r)
        for p in ("forward", "backward", "optimizer")
        for r in ("rank 0", "another rank")
    }
    hangs = {("collective.hang", "backward", role) for role in ("rank 0", "another rank")}
    during = {("process.kill", "transfer", role) for role in ("rank 0", "another rank", "transfer_source")}
    assert cells(made) == steps | hangs | during
    assert made.left_out == ()


def test_bounds_are_the_loosest_and_parameters_are_the_suites() -> None:
    (job,) = space().jobs
    assert job.bounds == {"detect": "2s", "recover": "1s", "run": "1m"}
    assert job.kinds["collective.hang"].recipes == ({"for": "8s"},)
    no_bound = SMALL.replace("  bounds: {detect: 500ms, recover: 1s, run: 60s}\n", "")
    assert space(no_bound).jobs[0].bounds == {"run": "1m"}


def test_what_must_not_pass_is_no_source() -> None:
    kill = "{fault: process.kill, where: {rank: 1}, when: {step: 5, phase: forward}}"
    stop = "{fault: process.stop, where: {rank: 0}, when: {step: 5, phase: backward}}"
    more = [", expect: INCONCLUSIVE", ", expect: {verdict: PASS, exit_code: 3}", ", recoveries: 7"]
    text = HEAD + scenario(kill) + "".join(scenario(stop, extra, f"s{n}") for n, extra in enumerate(more))
    assert cells(space(text)) == {("process.kill", "forward", "another rank")}
    assert space(text).left_out == (
        "2 scenarios not meant to pass, or to finish: s0, s1",
        "1 scenario with a number of recoveries: s2",
    )
    with pytest.raises(UserError, match="nothing can be drawn: 2 scenarios not meant to pass"):
        space(text, only=lambda name: name != "s")


def test_faults_that_must_stay_without_a_recovery_are_a_job_of_their_own() -> None:
    kill = "{fault: process.kill, where: {rank: 1}, when: {step: 5, phase: backward}}"
    delay = "{fault: collective.delay, where: {rank: 1}, when: {step: 5, phase: backward}}"
    loud, quiet = space(HEAD + scenario(kill) + scenario(delay, ", recoveries: 0", "t")).jobs
    assert (loud.name, loud.quiet, list(loud.kinds)) == ("tiny_gpt", False, ["process.kill"])
    assert (quiet.name, quiet.quiet, list(quiet.kinds)) == ("tiny_gpt-quiet", True, ["collective.delay"])


def test_what_is_asked_for_is_added() -> None:
    more = cells(space(asked=Asked(("process.stop",), ("commit",), 3)))
    assert {cell for cell in more if cell[0] == "process.stop"} >= {
        ("process.stop", "commit", "rank 0"),
        ("process.stop", "transfer", "transfer_source"),
    }
    assert cells(space()) < more
    assert space(asked=Asked(most=3)).jobs[0].most == 3


def test_what_this_machine_cannot_do_is_left_out_and_said() -> None:
    made = space(why_not=lambda name: "no such thing here" if name == "collective.hang" else None)
    assert {aim.cell.fault for aim in made.aims} == {"process.kill"}
    assert made.left_out == ("collective.hang: no such thing here",)


def test_what_a_suite_may_not_state_is_left_out_in_its_words() -> None:
    at_a_time = "{fault: process.kill, where: {rank: 1}, when: {after_s: 1s}}"
    made = space(HEAD + scenario(at_a_time), Asked(("process.exception", "node.kill")))
    assert cells(made) == {("process.kill", "time", "another rank")}
    assert made.left_out == (
        "process.exception at time: process.exception acts inside the process and cannot be placed by a time",
        "node.kill at time: node.kill acts on nodes, and this target has no nodes",
    ) or set(made.left_out) >= {
        "process.exception at time: process.exception acts inside the process and cannot be placed by a time"
    }


def test_the_last_of_two_ranks_is_not_struck_in_a_recovery() -> None:
    of_two = SMALL.replace("world: 4", "world: 2").replace("{rank: 2}", "{rank: 1}")
    made = space(
        of_two + "      - {fault: process.kill, where: {role: replacement}, when: {event: member.enter}}\n"
    )
    during = {cell for cell in cells(made) if cell[1] in ("transfer", "member.enter")}
    assert during == {
        ("process.kill", "transfer", "replacement"),
        ("process.kill", "member.enter", "replacement"),
    }
    assert "rank 0 at transfer: of two ranks it is the only one left that holds the state" in made.left_out
    # Under torchrun every rank starts again from a checkpoint, whoever is lost.
    command = of_two.replace("kind: recovery, workload: tiny_gpt, ", "kind: command, argv: [train], ")
    command = command.replace(', args: [--steps, "30"]', "").replace("spares: 1, ", "")
    assert ("process.kill", "transfer", "rank 0") in cells(space(command))


def test_a_recovery_needs_a_loss_before_it() -> None:
    alone = "{fault: process.kill, where: {rank: 1}, when: {event: recovery.transfer}}"
    with pytest.raises(
        UserError, match=r"process\.kill at transfer: comes only after a loss, and nothing else"
    ):
        space(HEAD + scenario(alone))


def test_a_fault_that_only_some_can_suffer_keeps_its_roles() -> None:
    text = HEAD + scenario("{fault: process.kill, where: {rank: random}, when: {step: 5, phase: backward}}")
    text += scenario("{fault: storage.eio, where: {rank: 0}, when: {step: 7}, for: 5s}", name="t")
    found = cells(space(text))
    assert {cell for cell in found if cell[0] == "storage.eio"} == {
        ("storage.eio", "backward", "rank 0"),
        ("storage.eio", "step", "rank 0"),
    }
    assert ("process.kill", "step", "another rank") in found


def test_a_node_that_returns_is_not_drawn_by_itself() -> None:
    text = HEAD.replace("world: 4", "cluster: {kind: netns, nodes: 2}, world: 4") + (
        "  - name: s\n    faults:\n"
        "      - {id: gone, fault: node.kill, where: {node: 1}, when: {step: 12, phase: backward}}\n"
        "      - {fault: node.return, where: {node: 1}, when: {after_fault: gone, after_s: 6s}}\n"
    )
    made = space(text)
    assert cells(made) == {("node.kill", "backward", "another node")}
    assert "node.return: in the suite it follows another fault, and is made for that one" in made.left_out
    (job,) = made.jobs
    assert job.kinds["node.kill"].alone
    assert job.node_steps == (1, 12)


@pytest.mark.slow
def test_every_shipped_suite_can_be_drawn_from() -> None:
    for name, path in shipped().items():
        made = space(path.read_text(encoding="utf-8"))
        assert made.suite == name
        for job in made.jobs:
            assert job.cells
            assert job.steps[0] <= job.steps[1]


def test_jobs_have_names_of_their_own() -> None:
    kill = "{fault: process.kill, where: {rank: 1}, when: {step: 5, phase: backward}}"
    text = HEAD + scenario(kill) + scenario(kill, ", target: {spares: 0}", "t")
    text += scenario(kill, ", target: {workload: digits_cnn}", "u")
    assert [job.name for job in space(text).jobs] == ["tiny_gpt", "tiny_gpt-2", "digits_cnn"]
    assert Cell("process.kill", "backward", "another rank") in space(text).job("digits_cnn").cells
