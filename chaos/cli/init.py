"""`init`: a first suite for a script, and a file for its CI. Asks nothing that it can find out."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from chaos.cli import ci_files
from chaos.errors import UserError
from chaos.suite.guess import Command, Script, commands, redirected, script_of

DEFAULT_WORLD = 4
MOST_BYTES = 200_000
"""Of a file that is searched for a command line; longer ones are data."""
SEARCHED = (
    *("Makefile", "justfile", "*.mk", "*.sh", "scripts/*.sh", "bin/*.sh"),
    *(".github/workflows/*.yml", ".github/workflows/*.yaml", ".gitlab-ci.yml", "README*", "docs/*.md"),
)
TEMPLATE = """\
# Breaks {script} on purpose and says whether it recovered correctly.
#   torch-chaos validate {out}
#   torch-chaos run {out}
suite: {name}
description: Kill and freeze ranks of {script}.
seed: 1
defaults:
  target:
    kind: {kind}
{target}    world: {world}
{rest}scenarios:
  - name: kill_in_backward
    description: A random rank is killed while gradients are averaged.
    faults:
      - fault: process.kill
        where: {{rank: random}}
        when: {{step: 10{phase}}}

  - name: freeze_rank_0
    description: Rank 0 stops answering for 5 s; nothing closes a socket.
    faults:
      - fault: process.stop
        where: {{rank: 0}}
        when: {{step: 10}}
        for: 5s
"""
COMMAND = """\
    # Started like this; nothing in the script has to change.{found}
{places}    argv: [{argv}]
    # In torch 2.13 a rank that torchrun restarted dials a dead address without this (pytorch/pytorch#135712).
    env: {{TORCH_DISABLE_SHARE_RDZV_TCP_STORE: "1"}}
"""
OWN_PLACE = """\
    # {work} is a folder that exists for one run: no run goes on from the checkpoints of another.
"""
SHARED_PLACE = """\
    # The script saves to a place that no argument names, so a run may go on from what another has saved
    # and is no run of its own then. Let it take an argument, and add here: --checkpoint, "{work}/file.pt"
"""
COMMAND_REST = """\
    # What a step is: by default one step of the first optimizer that steps. Other rules:
    #   step: {rule: every_n, n: 4}
    #   step: {rule: stdout, pattern: 'step (\\d+)'}
  bounds: {recover: 60s, run: 300s}

"""
PRINTED_REST = """\
    # The script shows no optimizer, but prints a line for each step:
    step: {{rule: stdout, pattern: {pattern}}}
  bounds: {{recover: 60s, run: 300s}}

"""
RECOVERY = """\
    workload: {script}
"""
RECOVERY_REST = """\
    # Steps that a complete run commits, and how the script is told{mend}.
    steps: 30
{places}    args: [{args}]
  bounds: {{detect: 500ms, recover: 2s, run: 60s}}

"""
Ci = Literal["auto", "github", "gitlab", "none"]


@dataclass(frozen=True)
class Found:
    """All that was found out: how the script is started, and what it says itself."""

    command: Command | None
    script: Script
    runtime: bool


def init(script: Path, out: Path, world: int | None, ci: Ci = "none") -> None:
    """Write the suite, and the CI file that is wanted or that the repository's own files call for.

    Raises:
        UserError: there is no such script, or a file would be overwritten.
    """
    if not script.is_file():
        raise UserError(f"there is no script {script}", "name the training script")
    if out.exists():
        raise UserError(f"{out} is already there", "choose another file with --out")
    found = look(script, Path.cwd())
    out.write_text(suite_text(script, out, world, found), encoding="utf-8")
    if found.command is not None:
        print(f"found at {found.command.place}: {shlex.join(found.command.argv)}")
    if found.script.checkpoints is not None:
        print(f"checkpoints of each run in a folder of its own: {found.script.checkpoints.flag}")
    elif found.script.saves:
        print(f"{script} saves to a place that no argument names: see the comment in {out}")
    print(f"wrote {out}; next: torch-chaos run {out}")
    for line in ci_files.write(ci, Path.cwd(), out):
        print(line)


def look(script: Path, folder: Path) -> Found:
    """Search the script, and the files of a folder that may start it."""
    text = script.read_text(encoding="utf-8", errors="replace")
    runtime = "import recovery" in text
    paths = dict.fromkeys(path for pattern in SEARCHED for path in sorted(folder.glob(pattern)))
    texts = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8", errors="replace")
        for path in paths
        if path.is_file() and path.stat().st_size <= MOST_BYTES
    }
    started = [] if runtime else commands(texts, script.name)
    # Words that only a shell or a workflow can fill in would reach the script as they stand.
    plain = [one for one in started if not any("$" in word for word in one.argv)]
    return Found(next(iter(plain), None), script_of(text), runtime)


def suite_text(script: Path, out: Path, world: int | None, found: Found) -> str:
    """The suite's text; `world` overrides what was found."""
    path = os.path.relpath(script, out.parent)
    ranks = world or (found.command.world if found.command is not None else None) or DEFAULT_WORLD
    by_line = not found.runtime and not found.script.optimizer and found.script.pattern is not None
    return TEMPLATE.format(
        script=path,
        out=out,
        name=f"{script.stem}-chaos",
        kind="recovery" if found.runtime else "command",
        world=ranks,
        target=RECOVERY.format(script=path) if found.runtime else _command(path, script, ranks, found),
        rest=_rest(found, by_line),
        # A script whose steps are told by its lines shows no phases of a step.
        phase="" if by_line else ", phase: backward",
    )


def _command(path: str, script: Path, ranks: int, found: Found) -> str:
    command, said = found.command, ""
    argv = ["torchrun", "--standalone", "--nproc-per-node", str(ranks), "--max-restarts", "3", path]
    if command is not None and command.world == ranks:
        argv, said = _as_found(path, script, command)
    if found.script.checkpoints is not None:
        argv = redirected(argv, found.script.checkpoints)
    return COMMAND.format(found=said, places=_places(found.script), argv=", ".join(map(_quoted, argv)))


def _places(script: Script) -> str:
    """What is said of where checkpoints go."""
    if script.checkpoints is not None:
        return OWN_PLACE
    return SHARED_PLACE if script.saves else ""


def _as_found(path: str, script: Path, command: Command) -> tuple[list[str], str]:
    """The command line as it was found, with restarts; and where that was, in words."""
    argv = [path if word.rpartition("/")[2] == script.name else word for word in command.argv]
    restarts = any(word.startswith(("--max-restarts", "--max_restarts")) for word in argv)
    said = f" As in {command.place}." if restarts else f" As in {command.place}, with restarts."
    if not restarts:
        argv[argv.index(path) : argv.index(path)] = ["--max-restarts", "3"]
    return argv, said


def _quoted(word: str) -> str:
    """A word as YAML takes it for text, whatever it holds."""
    plain = word.replace("-", "").replace("_", "").replace(".", "").replace("/", "")
    return word if plain.isalnum() and not plain[0].isdigit() else "'" + word.replace("'", "''") + "'"


def _rest(found: Found, by_line: bool) -> str:
    if found.runtime:
        flag, places = found.script.steps_flag, found.script.checkpoints
        words = [flag or "--steps", '"{steps}"']
        if places is not None:
            words += [places.flag, _quoted(f"{{work}}/{places.name}")]
        mend = "" if flag else " (mend this line)"
        return RECOVERY_REST.format(places=_places(found.script), args=", ".join(words), mend=mend)
    if by_line:
        assert found.script.pattern is not None
        return PRINTED_REST.format(pattern="'" + found.script.pattern.replace("'", "''") + "'")
    return COMMAND_REST
