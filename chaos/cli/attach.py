"""`attach`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chaos.attach import faults, nodes
from chaos.attach.faults import Asked, Entries, Site
from chaos.attach.job import Job
from chaos.attach.session import described, job_of
from chaos.cli import times
from chaos.cli.runs import Output, run_all
from chaos.errors import Exit, UserError
from chaos.plan import Facts
from chaos.runner import facts
from chaos.suite import read
from injectors.catalogue import CATALOGUE

TIMES = "500ms, 2s, 1.5m or 1h"


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for.

    Attributes:
        asked: faults by name.
        file: a file of faults instead.
        within: when all of it ends at the latest.
        settle: how long the job is looked at afterwards.
    """

    asked: Asked
    file: Path | None
    within: str
    settle: str
    seed: int


def attach(pids: list[int], wanted: Wanted, output: Output) -> int:
    """Arm faults on the job of these processes; without a fault, say what was found. Returns the exit code.

    Raises:
        UserError: something is wrong with the faults.
        Refused: there is no such job, or it can't have such a fault. Nothing was touched.
    """
    within_s = times.seconds("--within", wanted.within, TIMES)
    settle_s = times.seconds("--settle", wanted.settle, TIMES)
    entries = _entries(wanted)
    job = job_of(pids)
    found = nodes.look(job)
    if entries is None:
        _show(job, found)
        return int(Exit.PASSED)
    site = Site(job, len(found.nodes), found.why_not, within_s, settle_s)
    known = Facts(facts.torch_version(), {}, str(Path.cwd()))
    return run_all([faults.plan_of(entries, site, wanted.seed, known, CATALOGUE)], output)


def _entries(wanted: Wanted) -> Entries | None:
    """What is to be armed; None if nothing is asked for."""
    if wanted.file is None:
        if not wanted.asked.names and wanted.asked != Asked(()):
            raise UserError("no fault is named", "--fault NAME; `torch-chaos list` shows every fault")
        return faults.of_words(wanted.asked, CATALOGUE) if wanted.asked.names else None
    if wanted.asked != Asked(()):
        raise UserError(
            f"--faults {wanted.file} says which faults, where and for how long, and so do other options",
            "give a file, or --fault with its options",
        )
    if not wanted.file.is_file():
        raise UserError(f"there is no file {wanted.file}", "check the path; it is relative to this folder")
    return faults.of_text(read(wanted.file), str(wanted.file))


def _show(job: Job, found: nodes.FoundNodes) -> None:
    for line in described(job):
        print(line)
    for node in found.nodes:
        ranks = ", ".join(map(str, found.ranks_on(node.index)))
        print(f"node {node.index}: {node.address} on {node.interface}, ranks {ranks}")
    named = faults.armable(CATALOGUE, bool(found.nodes))
    print(f"can be armed: {', '.join(named)}")
    if found.why_not:
        print("faults of nodes and networks can't: " + found.why_not.partition("\n")[0])
