"""The ranks of a job are found from what the kernel shows of processes, and never those of another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.attach.job import Job, again, fates, find, together
from chaos.errors import Refused
from tests.chaos.attach.tables import SHELL, process, rank, table, torchrun

ME = 1000


def held(job: Job) -> dict[int, int]:
    return {number: one.pid for number, one in job.ranks.items()}


@pytest.mark.parametrize("pid", [10, 11, 12, 13, 2], ids=["launcher", "rank 0", "rank 1", "loader", "shell"])
def test_every_process_of_a_job_leads_to_it(pid: int) -> None:
    worker = replace(rank(13, 12, 1), argv=("python", "-c", "loader"))
    job = find(table(*SHELL, *torchrun(), worker), pid, ME)
    assert held(job) == {0: 11, 1: 12}
    assert (job.world, job.elsewhere) == (2, ())
    assert [root.pid for root in job.roots] == [10]
    assert sorted(member.pid for member in job.members) == [10, 11, 12, 13]


def test_a_launcher_that_is_started_with_a_rank_is_no_rank() -> None:
    node = process(10, 1, "torchrun train.py", RANK=1, WORLD_SIZE=2, MASTER_PORT=29500)
    ranks = [rank(11, 10, 2, 4), rank(12, 10, 3, 4)]
    job = find(table(process(1, 0, "sh"), node, *ranks), 10, ME)
    assert held(job) == {2: 11, 3: 12}
    assert (job.world, job.elsewhere) == (4, (0, 1))


def test_ranks_without_a_launcher_are_found_by_each_other() -> None:
    env = {"WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500}
    ranks = [process(20 + n, 1, RANK=n, **env) for n in range(2)]
    strangers = torchrun(parent=1, port=29501)
    job = find(table(process(1, 0, "/sbin/init"), *ranks, *strangers), 21, ME)
    assert held(job) == {0: 20, 1: 21}
    assert job.roots == ()
    assert sorted(member.pid for member in job.members) == [20, 21]


def test_the_same_port_in_another_network_is_another_job() -> None:
    others = [replace(one, net=7) for one in torchrun(30, 31, parent=1)]
    orphans = [replace(one, ppid=1) for one in torchrun()[1:]]
    job = find(table(process(1, 0, "/sbin/init"), *orphans, *others), 11, ME)
    assert held(job) == {0: 11, 1: 12}


def test_a_wrapper_script_is_not_the_rank() -> None:
    wrapper = replace(rank(11, 10, 0, 1), argv=("/bin/bash", "start.sh"))
    job = find(table(*SHELL, process(10, 2, "torchrun"), wrapper, rank(12, 11, 0, 1)), 10, ME)
    assert held(job) == {0: 12}


def test_two_jobs_below_one_shell_are_told_apart_by_the_user() -> None:
    seen = table(*SHELL, *torchrun(), *torchrun(20, 21, port=29501))
    with pytest.raises(Refused) as refused:
        find(seen, 2, ME)
    assert str(refused.value) == (
        "pid 2 (bash) has 2 jobs below it\n"
        "  mend: name the launcher of one: 10 (torchrun --nproc-per-node 2 train.py), "
        "20 (torchrun --nproc-per-node 2 train.py)"
    )
    assert held(find(seen, 22, ME)) == {0: 21, 1: 22}


def test_what_can_not_be_attached_to_is_refused_with_a_remedy() -> None:
    seen = table(*SHELL, *torchrun())
    with pytest.raises(Refused, match="there is no process 99\n  mend: `pgrep"):
        find(seen, 99, ME)
    with pytest.raises(
        Refused, match=r"pid 10 \(torchrun .*\) belongs to user 1000, and this is user 1001\n"
    ):
        find(seen, 10, 1001)
    with pytest.raises(Refused, match=r"no rank was found at, above or below pid 5 \(vim\)\n"):
        find(table(*SHELL, process(5, 2, "vim")), 5, ME)


def test_root_may_attach_to_everyones_job() -> None:
    assert held(find(table(*SHELL, *torchrun()), 10, 0)) == {0: 11, 1: 12}


def test_a_run_of_ours_is_left_to_itself() -> None:
    ours = [replace(one, run="120000-abcd") for one in torchrun()]
    with pytest.raises(Refused, match="belongs to a run of torch-chaos, 120000-abcd"):
        find(table(*SHELL, *ours), 10, ME)


def test_nodes_are_put_together_if_they_are_of_one_job() -> None:
    first = [replace(one, net=7) for one in torchrun(world=2)]
    ranks = [rank(21, 20, 0, 4, MASTER_ADDR="10.0.0.1"), rank(22, 20, 1, 4, MASTER_ADDR="10.0.0.1")]
    others = [rank(31, 30, 2, 4, MASTER_ADDR="node0"), rank(32, 30, 3, 4, MASTER_ADDR="node0")]
    seen = table(*SHELL, *first, process(20, 2, "torchrun"), *ranks, process(30, 2, "torchrun"), *others)
    job = together([find(seen, 20, ME), find(seen, 30, ME)])
    assert held(job) == {0: 21, 1: 22, 2: 31, 3: 32}
    assert [root.pid for root in job.roots] == [20, 30]
    with pytest.raises(Refused, match="the processes 20, 10 are not of one job"):
        together([find(seen, 20, ME), find(seen, 10, ME)])


def test_ranks_that_were_started_anew_are_found_again() -> None:
    job = find(table(*SHELL, *torchrun()), 10, ME)
    launcher = torchrun()[0]
    assert held(again(table(launcher), job)) == {}
    anew = [rank(41, 10, 0, port=29777, TORCHELASTIC_RESTART_COUNT=1)]
    later = again(table(launcher, *anew), job)
    assert held(later) == {0: 41}
    assert fates(job.ranks, later.ranks) == {0: "held by pid 41 now", 1: "gone"}


def test_ranks_outlive_their_launcher() -> None:
    job = find(table(*SHELL, *torchrun()), 10, ME)
    left = again(table(*(replace(one, ppid=1) for one in torchrun()[1:])), job)
    assert held(left) == {0: 11, 1: 12}
    assert left.roots == ()


def test_a_pid_that_was_given_to_another_process_is_not_the_rank() -> None:
    job = find(table(*SHELL, *torchrun()), 10, ME)
    other = replace(process(11, 10, "vim"), start_ticks=9)
    later = again(table(torchrun()[0], other, torchrun()[2]), job)
    assert held(later) == {1: 12}
    assert fates(job.ranks, later.ranks) == {0: "gone", 1: "runs on"}
