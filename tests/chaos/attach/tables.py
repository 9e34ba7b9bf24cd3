"""Made-up tables of processes."""

from __future__ import annotations

from chaos.attach.job import Seen

HERE = 4026531840


def process(pid: int, ppid: int, line: str = "python train.py", *, net: int = HERE, **env: object) -> Seen:
    """A process of user 1000; upper-case keywords are its environment."""
    given = {name: str(value) for name, value in env.items()}
    return Seen(pid, ppid, 100 * pid, tuple(line.split()), 1000, net, given)


def rank(pid: int, ppid: int, number: int, world: int = 2, port: int = 29500, **more: object) -> Seen:
    """A rank as torchrun starts one."""
    env = {"RANK": number, "WORLD_SIZE": world, "LOCAL_RANK": number, "MASTER_ADDR": "localhost"}
    keywords = {**env, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "none", **more}
    return process(pid, ppid, **keywords)  # type: ignore[arg-type]  # `line` and `net` are among them


def table(*processes: Seen) -> dict[int, Seen]:
    return {one.pid: one for one in processes}


def torchrun(
    launcher: int = 10, first: int = 11, parent: int = 2, world: int = 2, port: int = 29500
) -> list[Seen]:
    """A launcher and its ranks, with the pids `first` and up."""
    ranks = [rank(first + number, launcher, number, world, port) for number in range(world)]
    return [process(launcher, parent, "torchrun --nproc-per-node 2 train.py"), *ranks]


SHELL = [process(1, 0, "/sbin/init"), process(2, 1, "bash")]
