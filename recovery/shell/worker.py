"""A worker process: from its creation to the end of the user's script."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recovery.shell.channel import Channel
from recovery.shell.link import Link, SupervisorGone, set_link
from recovery.shell.page import Page


@dataclass(frozen=True)
class Program:
    """What the user wants to run."""

    script: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    seed: int = 0
    preload: tuple[str, ...] = ()
    local_world_size: int = 1
    """Ranks of one node, as launched."""
    address: str = ""
    """This node's address, where its ranks meet those of other nodes; "" in a job of one node."""


def work(link: Link, program: Program) -> int:
    """Run the script as `__main__`; returns the exit code. Its exception is told to the supervisor."""
    os.environ["RECOVERY_ROLE"] = "worker"
    if link.rank is None:
        os.environ.pop("RANK", None)
    set_link(link)
    _fresh_interpreter_state(program)
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    code = 0
    try:
        if program.is_module:
            runpy.run_module(program.script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program.script, run_name="__main__")
        threading._shutdown()  # type: ignore[attr-defined]  # wait for the user's own threads
    except SupervisorGone as gone:
        code = int(gone.code or 0)
    except SystemExit as ended:
        code = _exit_code(ended)
    except BaseException as error:
        # A data loader's handler raises whenever one of its workers has died: not into this.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _tell(link, error)
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 1
    return code


def _fresh_interpreter_state(program: Program) -> None:
    """A forked child shares what the template imported; undo what a new interpreter would not have."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    sys.argv = [program.script, *program.arguments]
    folder = "" if program.is_module else os.path.dirname(os.path.abspath(program.script))
    sys.path[0:1] = [folder or os.getcwd()]


def _exit_code(ended: SystemExit) -> int:
    if ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code & 0xFF
    print(ended.code, file=sys.stderr)
    return 1


def _tell(link: Link, error: BaseException) -> None:
    where = traceback.extract_tb(error.__traceback__)
    last = f" at {os.path.basename(where[-1].filename)}:{where[-1].lineno}" if where else ""
    text = f"{type(error).__name__}: {error}"[:2000] + last
    try:
        link.control.send(op="exception", error=text)
    except OSError:
        pass  # nobody is left to tell


def from_environment() -> tuple[Link, Program]:
    """The link of a process that was executed instead of forked (RECOVERY_LINK holds descriptors)."""
    import json
    import socket

    given: dict[str, Any] = json.loads(os.environ.pop("RECOVERY_LINK"))
    names = ("control", "store", "release")
    channels = [Channel(socket.socket(fileno=given[name])) for name in names]
    page = Page(given["world_size"], given["page"])
    words = given["program"]
    program = Program(**{**words, "arguments": tuple(words["arguments"]), "preload": tuple(words["preload"])})
    rank, local_rank = given["rank"], given["local_rank"]
    return link_of(program, channels, page, given["proc"], rank, local_rank), program


def link_of(
    program: Program,
    channels: Sequence[Channel],
    page: Page,
    proc: int,
    rank: int | None,
    local_rank: int | None,
) -> Link:
    """A worker's link to its supervisor."""
    control, store, release = channels
    return Link(
        control=control,
        store=store,
        release=release,
        page=page,
        proc=proc,
        rank=rank,
        local_rank=local_rank,
        seed=program.seed,
        local_world_size=program.local_world_size,
        address=program.address,
    )


if __name__ == "__main__":
    from recovery.shell import template

    template.warm()
    code = work(*from_environment())
    os._exit(code)
