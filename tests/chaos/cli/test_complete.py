"""Shell completion, by what the shells' own scripts send and read; bash itself where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cli import complete
from chaos.invariants import catalogue
from chaos.suite import shipped
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import environment

VARIABLE = "_TORCH_CHAOS_COMPLETE"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """The command as an installation has it: shells know it, and it knows itself, by its name."""
    path = tmp_path / "torch-chaos"
    path.write_text(f"#!{sys.executable}\nfrom chaos.cli import main\nmain()\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def asked(command: Path, shell: str, typed: str, **more: str) -> str:
    """What the command answers to a shell when Tab is pressed after `typed`."""
    words = typed.split(" ")
    env = environment(
        COMP_WORDS="\n".join(words),
        COMP_CWORD=str(len(words) - 1),
        _TYPER_COMPLETE_ARGS=typed,
        **{VARIABLE: f"complete_{shell}"},
        **more,
    )
    done = subprocess.run([command], env=env, cwd=command.parent, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("torch-chaos ro", ["rollback"]),
        ("torch-chaos run smoke --junit-i", ["--junit-inconclusive"]),
        ("torch-chaos run smoke --format ", ["rich", "json", "plain"]),
        ("torch-chaos list inv", ["invariants"]),
        ("torch-chaos run smok", ["smoke"]),
        ("torch-chaos run smoke stor", ["storage", "store"]),
        ("torch-chaos plan sm", ["smoke"]),
        ("torch-chaos describe process.s", ["process.stop", "process.segv"]),
        ("torch-chaos describe every_", ["every_sample_exactly_once"]),
        ("torch-chaos shrink plan.json --invariant state_", ["state_equals_twin"]),
        # Nothing: the shell offers its files.
        ("torch-chaos run ./my", []),
        ("torch-chaos replay rep", []),
    ],
)
@pytest.mark.slow
def test_bash_is_offered_verbs_options_and_names(command: Path, typed: str, offered: list[str]) -> None:
    assert asked(command, "bash", typed).split() == offered


@pytest.mark.slow
def test_zsh_and_fish_are_offered_the_same_with_what_it_does(command: Path) -> None:
    zsh = asked(command, "zsh", "torch-chaos roll")
    assert zsh.startswith('_arguments \'*: :(("rollback":"Say whether runs left anything behind')
    assert asked(command, "zsh", "torch-chaos replay rep") == "_files\n"
    fish = asked(command, "fish", "torch-chaos roll", _TYPER_COMPLETE_FISH_ACTION="get-args")
    assert fish.startswith("rollback\tSay whether runs left anything behind")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "said"),
    [("bash", "complete -o default -F"), ("zsh", "#compdef torch-chaos"), ("fish", "complete --command")],
)
def test_the_script_of_each_shell_can_be_printed_without_being_in_one(
    command: Path, shell: str, said: str
) -> None:
    env = environment(**{VARIABLE: f"source_{shell}"})
    done = subprocess.run([command], env=env, capture_output=True, text=True, check=True)
    assert said in done.stdout
    assert VARIABLE in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_itself_completes_with_the_printed_script(command: Path) -> None:
    script = (
        f'eval "$({VARIABLE}=source_bash torch-chaos)"\n'
        "COMP_WORDS=(torch-chaos describe collective.h) COMP_CWORD=2\n"
        "_torch_chaos_completion torch-chaos\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
        "complete -p torch-chaos\n"
    )
    env = environment(PATH=f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "collective.hang",
        "complete -o default -F _torch_chaos_completion torch-chaos",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("typed", ["torch-chaos r", "torch-chaos run sm", "torch-chaos describe process."])
def test_an_answer_waits_for_no_engine(tmp_path: Path, command: Path, typed: str) -> None:
    command.write_text(
        f"#!{sys.executable}\nimport atexit, sys\nfrom chaos.cli import main\n"
        f"atexit.register(lambda: open({str(tmp_path / 'loaded')!r}, 'w').write('\\n'.join(sys.modules)))\n"
        "main()\n",
        encoding="utf-8",
    )
    assert asked(command, "bash", typed)
    loaded = set((tmp_path / "loaded").read_text(encoding="utf-8").split())
    assert "typer.completion" in loaded
    heavy = {"torch", "numpy", "ruamel", "rich", "jinja2", "pyroute2", "docker", "hypothesis"}
    assert sorted(loaded & (heavy | {"chaos.runner", "chaos.suite", "chaos.report", "injectors.net"})) == []


def test_the_names_are_those_of_the_catalogues() -> None:
    assert complete.suites("") == list(shipped())
    assert complete.faults("") == list(CATALOGUE)
    assert complete.faults("net.") == [name for name in CATALOGUE if name.startswith("net.")]
    assert complete.faults("no") == [name for name in CATALOGUE if name.startswith("no")]
    assert complete.faults("nothing.") == []
    assert complete.invariants("") == list(catalogue)
    assert complete.anything("") == [*shipped(), *CATALOGUE, *catalogue]
