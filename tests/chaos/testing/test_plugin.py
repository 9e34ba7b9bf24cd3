"""The plugin in a fresh project: inert until used, and what it says when it is. Nothing here runs a job."""

from __future__ import annotations

import pytest

from tests.chaos.testing.projects import KILL, Project, standin_suite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

PLAIN = """
import sys

def test_plain():
    assert not {'torch', 'chaos.runner', 'hypothesis', 'pydantic'} & {*sys.modules}
"""


def test_it_is_inert_until_it_is_used(project: Project) -> None:
    project.write("test_plain.py", PLAIN)
    project.write("data.yaml", "suite: of armour\n")
    # Hypothesis has a plugin of its own, which is not what is looked at.
    done = project.pytest("-p", "no:hypothesispytest", "-v")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["torch-chaos: seed each suite's own, 0 for a function, profile dev, torch *, * CPUs"]
    )
    assert "clusters" not in done.stdout.str()
    assert not list(project.path.glob("**/torch-chaos*/undo.jsonl"))


def test_it_can_be_left_out(project: Project) -> None:
    project.write("test_plain.py", PLAIN)
    done = project.pytest("-p", "no:torch_chaos", "-p", "no:hypothesispytest")
    done.assert_outcomes(passed=1)
    done.stdout.no_fnmatch_line("torch-chaos*")


USES = """
import sys, pytest

@pytest.mark.torch_chaos(faults=["process.kill"])
def test_marked_alone(): ...

@pytest.mark.torch_chaos(wrold=4)
def test_misspelt(torch_chaos): ...

def test_nothing_to_run(torch_chaos):
    torch_chaos.run()

def train(steps): ...

def test_unknown_fault(torch_chaos):
    torch_chaos.run(train, faults=["proces.kill"])

def test_unused(torch_chaos):
    assert torch_chaos.options.seed.number == 7
    assert "torch" not in sys.modules
"""


def test_what_is_asked_wrongly_says_how_to_mend_it(project: Project) -> None:
    project.write("test_uses.py", USES)
    done = project.pytest("--torch-chaos-seed=7")
    done.assert_outcomes(passed=1, failed=2, errors=2)
    done.stdout.fnmatch_lines_random(
        [
            "torch-chaos: seed 7 (--torch-chaos-seed; --torch-chaos-seed=7 repeats it), profile dev, *",
            "torch-chaos: 5 tests; clusters local*",
            "marked torch_chaos, but takes no fixture `torch_chaos`: nothing would be broken",
            "test_misspelt: @pytest.mark.torch_chaos: unknown keyword 'wrold'",
            "  mend: did you mean 'world'?",
            "*test_nothing_to_run: what is to be run?",
            "*test_uses.py::test_unknown_fault:1: scenarios*.faults*.fault: unknown fault 'proces.kill'",
        ]
    )


def test_options_have_twins_and_a_wrong_value_is_a_usage_error(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("test_plain.py", "def test_plain(): ...\n")
    project.write("pytest.ini", "[pytest]\ntorch_chaos_seed = 3\ntorch_chaos_profile = ci\n")
    monkeypatch.setenv("TORCH_CHAOS_SEED", "4")
    project.pytest().stdout.fnmatch_lines(["torch-chaos: seed 4 (TORCH_CHAOS_SEED; *profile ci*"])
    wrong = project.pytest("--torch-chaos-seed=x")
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
    wrong.stderr.fnmatch_lines(["ERROR: torch-chaos: --torch-chaos-seed=x: not a whole number from 0 on"])
    monkeypatch.setenv("TORCH_CHAOS_REQUIRE", "netns,proces")
    unknown = project.pytest()
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    unknown.stderr.fnmatch_lines(
        [
            "ERROR: torch-chaos: TORCH_CHAOS_REQUIRE=netns,proces: unknown name 'proces'",
            "  mend: did you mean 'process'? one of all, collective, *process.kill*",
        ]
    )
    named = "docker,local,netns,torch,all,process,process.kill"
    project.pytest(f"--torch-chaos-require={named}").assert_outcomes(passed=1)


def test_a_random_seed_is_one_for_all_workers_and_known_as_the_last(project: Project) -> None:
    told = "def test_{0}(torch_chaos):\n    print('root', torch_chaos.options.seed.number)\n"
    project.write("test_seed.py", told.format("a") + told.format("b"))
    done = project.pytest("--torch-chaos-seed=random", "-n", "2", "-rP")
    done.assert_outcomes(passed=2)
    (drawn, *others) = {line.split()[1] for line in done.outlines if line.startswith("root ")}
    assert others == []
    again = project.pytest("--torch-chaos-seed=last")
    again.stdout.fnmatch_lines([f"torch-chaos: seed {drawn} (that of the last run; *"])


def test_suite_files_are_collected_where_they_are_named(project: Project) -> None:
    project.write("smoke.yaml", standin_suite(KILL))
    project.write("broken.yaml", standin_suite(KILL.replace("process.kill", "proces.kill")))
    project.write("other.yaml", "services: [web]\n")
    named = project.pytest("smoke.yaml", "broken.yaml", "--collect-only", "-q", "--torch-chaos-repeat=2")
    named.stdout.fnmatch_lines(["*smoke.yaml::kill.1", "*smoke.yaml::kill.2"])
    named.stdout.fnmatch_lines(
        ["*broken.yaml:*: *unknown fault 'proces.kill'", "*did you mean 'process.kill'?"]
    )
    assert project.pytest("other.yaml").ret == pytest.ExitCode.USAGE_ERROR
    by_pattern = project.pytest("--collect-only", "-q", "-o", "torch_chaos_suites=smo*.yaml")
    by_pattern.stdout.fnmatch_lines(["*smoke.yaml::kill", "1 test collected *"])
