"""Which processes are the ranks of a job, from a table of processes as the kernel shows them. Pure.

Rules kept here:

- A rank is known by what it was started with: RANK and WORLD_SIZE in its first environment. What Python sets
  later can't be seen from outside.
- Children inherit that environment (a data loader's workers, a compiler), so a rank's process is the topmost
  one that has it.
- Two jobs are never taken for one: what joins a world (its size, its store's address and port, its run id)
  must be equal. Where it differs, the user names the job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from chaos.errors import Refused

# What a table keeps of an environment: what tells ranks and jobs apart, and what faults go by.
VARIABLES = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"),
)
_WORLD = ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
_IDENTITY = ("RANK", "LOCAL_RANK", *_WORLD, "TORCHELASTIC_RESTART_COUNT")
# A wrapper script that does not `exec` is not the rank: its child is.
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "busybox", "env", "numactl", "taskset", "nice"})
_INIT = 1

Id: TypeAlias = tuple[int, int]
"""Pid and start time, which together name a process for good."""


@dataclass(frozen=True)
class Seen:
    """One living process.

    Attributes:
        start_ticks: start time in clock ticks since boot.
        uid: whose it is.
        net: inode of its network namespace, 0 where that may not be looked at.
        env: those of `VARIABLES` that it was started with.
        run: the marker of a run of torch-chaos, "" if it is of none.
    """

    pid: int
    ppid: int
    start_ticks: int
    argv: tuple[str, ...] = ()
    uid: int = 0
    net: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    run: str = ""

    @property
    def id(self) -> Id:
        return self.pid, self.start_ticks

    @property
    def line(self) -> str:
        """The command line, short enough for a message."""
        text = " ".join(self.argv)
        return text if len(text) <= 80 else f"{text[:77]}..."


Table: TypeAlias = Mapping[int, Seen]


@dataclass(frozen=True)
class Job:
    """A job as it was found.

    Attributes:
        world: how many ranks it has, on all machines together.
        roots: its launchers; none where they are gone.
        ranks: rank -> its process, of those on this machine.
        members: every process that belongs to it.
    """

    world: int
    roots: tuple[Seen, ...]
    ranks: Mapping[int, Seen]
    members: tuple[Seen, ...]

    @property
    def elsewhere(self) -> tuple[int, ...]:
        """The ranks that no process here holds."""
        return tuple(rank for rank in range(self.world) if rank not in self.ranks)


def find(table: Table, pid: int, uid: int) -> Job:
    """The job that a process belongs to, or that runs below it.

    Args:
        table: every process of the machine.
        pid: a launcher, a rank, anything below a rank, or a shell that started the launcher.
        uid: who asks; 0 may touch everyone's.

    Raises:
        Refused: there is no such process, it is another user's, it has no rank, or it has several jobs.
    """
    named = table.get(pid)
    if named is None:
        raise Refused(f"there is no process {pid}", "`pgrep -af torchrun` shows the launchers that run here")
    if uid not in (0, named.uid):
        raise Refused(
            f"pid {pid} ({named.line}) belongs to user {named.uid}, and this is user {uid}",
            f"run torch-chaos as that user, or as root: sudo torch-chaos attach {pid}",
        )
    ranks = _ranks_of(table, named)
    if not ranks:
        raise Refused(
            f"no rank was found at, above or below pid {pid} ({named.line})",
            "name torchrun or one of its processes, once they are there; a rank is a process that was "
            "started with RANK and WORLD_SIZE in its environment: what Python sets later can't be seen",
        )
    if run := next((one.run for one in (named, *ranks) if one.run), ""):
        raise Refused(
            f"pid {pid} ({named.line}) belongs to a run of torch-chaos, {run}",
            "put the fault into that run's suite: the run judges it and takes it back",
        )
    worlds = {_world(rank) for rank in ranks}
    if len(worlds) > 1:
        launchers = sorted({rank.ppid for rank in ranks})
        raise Refused(
            f"pid {pid} ({named.line}) has {len(worlds)} jobs below it",
            f"name the launcher of one: {', '.join(_named(table, one) for one in launchers)}",
        )
    return _job(table, _launchers(table, ranks), ranks, int(ranks[0].env["WORLD_SIZE"]))


def together(jobs: Sequence[Job]) -> Job:
    """One job whose launchers were named one by one, as on several nodes of one machine.

    Raises:
        Refused: they are not of one job.
    """
    if len({_joined(rank) for job in jobs for rank in job.ranks.values()}) > 1:
        pids = ", ".join(str(root.pid) for job in jobs for root in job.roots)
        raise Refused(
            f"the processes {pids} are not of one job: world sizes, ports or run ids differ",
            "attach to one job at a time",
        )
    return _merged(jobs, jobs[0].world)


def again(table: Table, before: Job) -> Job:
    """The same job later: its launchers may have started ranks anew. `table` needs their processes only."""
    known = {_world(rank) for rank in before.ranks.values()}
    # Ranks outlive a launcher that was killed.
    left = [rank for rank in before.ranks.values() if _lives(table, rank)]
    jobs = [_job(table, (), left, before.world)]
    for root in (root for root in before.roots if _lives(table, root)):
        ranks = [rank for rank in _tops(table) if _is_below(table, rank, root.pid)]
        # A launcher that starts its ranks anew may give them another port; it has one job all the same.
        same = [rank for rank in ranks if _world(rank) in known]
        one = ranks if len({_world(rank) for rank in ranks}) == 1 else []
        jobs.append(_job(table, (root,), same or one, before.world))
    return _merged(jobs, before.world)


def fates(before: Mapping[int, Seen], now: Mapping[int, Seen]) -> dict[int, str]:
    """What became of each rank: `runs on`, `held by pid N now`, or `gone`."""
    said = {}
    for number, rank in before.items():
        holder = now.get(number)
        if holder is None:
            said[number] = "gone"
        else:
            said[number] = "runs on" if holder.id == rank.id else f"held by pid {holder.pid} now"
    return said


# -- the search


def _ranks_of(table: Table, named: Seen) -> list[Seen]:
    """The ranks below a process; of a rank, or of something below one, its own and those beside it."""
    tops = _tops(table)
    own = next((top for top in tops if _is_below(table, named, top.pid)), None)
    if own is None:
        return [top for top in tops if _is_below(table, top, named.pid)]
    # Where the launcher is gone the ranks are init's children, among others.
    launcher = own.ppid if own.ppid in table else own.pid
    return [
        top
        for top in tops
        if _is_below(table, top, launcher) and (_world(top), top.net) == (_world(own), own.net)
    ]


def _launchers(table: Table, ranks: list[Seen]) -> tuple[Seen, ...]:
    """Who started the ranks, and may start them anew; init is no one's launcher."""
    above = (table.get(rank.ppid) for rank in ranks)
    found = {one.pid: one for one in above if one is not None and one.pid != _INIT}
    return tuple(found[pid] for pid in sorted(found))


def _job(table: Table, roots: tuple[Seen, ...], ranks: list[Seen], world: int) -> Job:
    # The newest holder of a rank is the one that counts: an old one may still be ending.
    by_age = sorted(ranks, key=lambda rank: rank.start_ticks)
    held = {int(rank.env["RANK"]): _worker(table, rank) for rank in by_age}
    pids = {one.pid for one in (*roots, *ranks)}
    members = tuple(
        process for process in table.values() if any(_is_below(table, process, pid) for pid in pids)
    )
    return Job(world, roots, dict(sorted(held.items())), members)


def _merged(jobs: Sequence[Job], world: int) -> Job:
    ranks = {number: rank for job in jobs for number, rank in job.ranks.items()}
    members = {member.id: member for job in jobs for member in job.members}
    roots = {root.id: root for job in jobs for root in job.roots}
    return Job(world, tuple(roots.values()), dict(sorted(ranks.items())), tuple(members.values()))


def _lives(table: Table, process: Seen) -> bool:
    now = table.get(process.pid)
    return now is not None and now.id == process.id


def _tops(table: Table) -> list[Seen]:
    """The topmost process of each rank."""
    tops = [
        process
        for process in table.values()
        if _is_rank(process) and _identity(table.get(process.ppid)) != _identity(process)
    ]
    with_local = [top for top in tops if "LOCAL_RANK" in top.env]
    # Clusters start torchrun itself with RANK, the number of its node; its ranks have LOCAL_RANK besides.
    return [
        top
        for top in tops
        if "LOCAL_RANK" in top.env or not any(_is_below(table, one, top.pid) for one in with_local)
    ]


def _worker(table: Table, top: Seen) -> Seen:
    """The process that trains, below a wrapper that only started it."""
    while top.argv and top.argv[0].rpartition("/")[2] in _SHELLS:
        children = [p for p in table.values() if p.ppid == top.pid and _identity(p) == _identity(top)]
        if len(children) != 1:
            break
        top = children[0]
    return top


def _is_rank(process: Seen) -> bool:
    rank, size = process.env.get("RANK", ""), process.env.get("WORLD_SIZE", "")
    return rank.isdecimal() and size.isdecimal() and int(rank) < int(size)


def _is_below(table: Table, process: Seen, pid: int) -> bool:
    """Whether a process is `pid` or one of its descendants."""
    at: Seen | None = process
    passed = set()
    while at is not None and at.pid not in passed:
        if at.pid == pid:
            return True
        passed.add(at.pid)
        at = table.get(at.ppid)
    return False


def _identity(process: Seen | None) -> tuple[str | None, ...]:
    return tuple(process.env.get(name) for name in _IDENTITY) if process is not None else ()


def _world(process: Seen) -> tuple[str | None, ...]:
    return tuple(process.env.get(name) for name in _WORLD)


def _joined(process: Seen) -> tuple[str | None, ...]:
    # Two nodes may write the address of the same store differently.
    return tuple(process.env.get(name) for name in _WORLD if name != "MASTER_ADDR")


def _named(table: Table, pid: int) -> str:
    process = table.get(pid)
    return f"{pid} ({process.line})" if process is not None else str(pid)
