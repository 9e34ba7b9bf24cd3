"""`init`: a first suite for a script."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.errors import UserError

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
        when: {{step: 10, phase: backward}}

  - name: freeze_rank_0
    description: Rank 0 stops answering for 5 s; nothing closes a socket.
    faults:
      - fault: process.stop
        where: {{rank: 0}}
        when: {{step: 10}}
        for: 5s
"""
COMMAND = """\
    # Started exactly like this; nothing in the script has to change.
    argv: [torchrun, --standalone, --nproc-per-node, "{world}", --max-restarts, "3", {script}]
"""
COMMAND_REST = """\
    # What a step is: by default one step of the first optimizer that steps. Other rules:
    #   step: {rule: every_n, n: 4}
    #   step: {rule: stdout, pattern: 'step (\\d+)'}
  bounds: {recover: 60s, run: 300s}

"""
RECOVERY = """\
    workload: {script}
"""
RECOVERY_REST = """\
    # Steps that a complete run commits, and how the script is told (mend this line).
    steps: 30
    args: [--steps, "{steps}"]
  bounds: {detect: 500ms, recover: 2s, run: 60s}

"""


def init(script: Path, out: Path, world: int) -> None:
    """Write the suite.

    Raises:
        UserError: there is no such script, or the suite would overwrite a file.
    """
    if not script.is_file():
        raise UserError(f"there is no script {script}", "name the training script")
    if out.exists():
        raise UserError(f"{out} is already there", "choose another file with --out")
    runtime = "import recovery" in script.read_text(encoding="utf-8", errors="replace")
    path = os.path.relpath(script, out.parent)
    text = TEMPLATE.format(
        script=path,
        out=out,
        name=f"{script.stem}-chaos",
        kind="recovery" if runtime else "command",
        world=world,
        target=(RECOVERY if runtime else COMMAND).format(script=path, world=world),
        rest=RECOVERY_REST if runtime else COMMAND_REST,
    )
    out.write_text(text, encoding="utf-8")
    print(f"wrote {out}; next: torch-chaos run {out}")
