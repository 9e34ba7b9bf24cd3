"""The group that outlives its generations: what happens to a collective that fails, or is still in flight."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.futures import Future

from recovery.errors import Interrupted, OutsideStep
from recovery.shell import page as words
from recovery.shell.membership import Membership
from recovery.shell.page import Page
from recovery.shell.process_group import ProcessGroup
from recovery.shell.rescue import Plain

_c10d: Any = torch._C._distributed_c10d


class Work:
    """A collective of the backend below, ended by hand."""

    def __init__(self) -> None:
        self.future: Future[Any] = Future()
        self.error: RuntimeError | None = None
        self.ended = threading.Event()

    def end(self, error: RuntimeError | None = None) -> None:
        self.error = error
        self.ended.set()
        self.future.set_exception(error) if error else self.future.set_result(None)

    def wait(self) -> None:
        self.ended.wait()
        if self.error:
            raise self.error

    def get_future(self) -> Future[Any]:
        return self.future

    def is_completed(self) -> bool:
        return self.ended.is_set()


class Backend:
    def __init__(self) -> None:
        self.works: list[Work] = []
        self.refuse = False

    def __getattr__(self, name: str) -> Any:
        def collective(*_: Any) -> Work:
            if self.refuse:
                raise RuntimeError("Connection reset by peer")
            self.works.append(Work())
            return self.works[-1]

        return collective


@pytest.fixture
def page() -> Page:
    return Page(2)


@pytest.fixture
def group(page: Page) -> ProcessGroup:
    membership = Membership(page, 0)
    page.open_generation = 1
    membership.enter(1, 0)
    group = ProcessGroup(0, 2, membership, [0, 1], Plain())
    group.inner = Backend()
    membership.begin_step(0)
    return group


def reset() -> RuntimeError:
    return RuntimeError("Connection reset by peer\nwith more lines")


def test_a_failure_is_flagged_and_not_raised_where_it_is_waited_for(group: ProcessGroup, page: Page) -> None:
    held = group.allreduce([torch.ones(2)])
    group.inner.works[0].end(reset())
    assert held.wait() is True
    assert group.membership.error == "RuntimeError: Connection reset by peer"
    assert not held.is_success()
    assert page.slots[0].ints[words.DONE] == 1


def test_the_next_collective_of_a_broken_generation_is_not_entered(group: ProcessGroup, page: Page) -> None:
    group.allreduce([torch.ones(2)])
    group.inner.works[0].end(reset())
    group.membership.fail("broken")
    with pytest.raises(Interrupted, match="broken"):
        group.allreduce([torch.ones(2)])
    assert page.slots[0].ints[words.ISSUED] == 1


def test_a_failure_at_the_entrance_is_raised(group: ProcessGroup) -> None:
    group.inner.refuse = True
    with pytest.raises(Interrupted, match="Connection reset"):
        group.broadcast([torch.ones(2)])


def test_a_future_is_completed_with_the_tensors_even_after_a_failure(group: ProcessGroup) -> None:
    tensors = [torch.ones(2)]
    future = group.allreduce(tensors).get_future()
    group.inner.works[0].end(reset())
    assert future.wait() == tensors
    assert group.membership.error is not None


def test_outside_a_step_a_failure_is_an_error_of_the_script(group: ProcessGroup) -> None:
    held = group.allreduce([torch.ones(2)])
    group.membership.end_step()
    group.inner.works[0].end(reset())
    with pytest.raises(OutsideStep, match="a collective outside run"):
        held.wait()


def test_without_a_generation_a_collective_says_where_it_belongs(group: ProcessGroup, page: Page) -> None:
    group.membership.end_step()
    page.open_generation = 0
    with pytest.raises(OutsideStep, match="mend: move it into the step function"):
        group.allreduce([torch.ones(2)])


def test_a_backend_is_let_go_only_when_nothing_is_in_flight(group: ProcessGroup) -> None:
    held = group.allreduce([torch.ones(2)])
    future = held.get_future()
    work = group.inner.works[0]
    leaving = threading.Thread(target=group.let_go)
    leaving.start()
    leaving.join(0.05)
    assert leaving.is_alive()
    assert group.inner is not None
    work.end(reset())
    leaving.join(5)
    assert not leaving.is_alive()
    assert group.inner is None
    assert future.done()


def test_a_late_failure_does_not_break_the_next_generation(group: ProcessGroup, page: Page) -> None:
    held = group.allreduce([torch.ones(2)])
    work = group.inner.works[0]
    page.open_generation = 2
    group.membership.enter(2, 0)
    work.end(reset())
    held.wait()
    assert group.membership.error is None


COLLECTIVES: list[tuple[str, tuple[Any, ...]]] = [
    ("allreduce", ([torch.ones(2)],)),
    ("allreduce_coalesced", ([torch.ones(2), torch.ones(3)],)),
    ("broadcast", ([torch.ones(2)],)),
    ("reduce", ([torch.ones(2)],)),
    ("allgather", ([[torch.ones(2), torch.ones(2)]], [torch.ones(2)])),
    ("allgather_coalesced", ([[torch.ones(2)]], [torch.ones(2)])),
    ("_allgather_base", (torch.ones(4), torch.ones(2))),
    ("all_gather_single", (torch.ones(4), torch.ones(2))),
    ("reduce_scatter", ([torch.ones(2)], [[torch.ones(2), torch.ones(2)]])),
    ("_reduce_scatter_base", (torch.ones(2), torch.ones(4))),
    ("reduce_scatter_single", (torch.ones(2), torch.ones(4))),
    ("alltoall", ([torch.ones(2)], [torch.ones(2)])),
    ("alltoall_base", (torch.ones(2), torch.ones(2), [], [])),
    ("all_to_all_single", (torch.ones(2), torch.ones(2), [], [])),
    ("gather", ([[torch.ones(2)]], [torch.ones(2)])),
    ("scatter", ([torch.ones(2)], [[torch.ones(2)]])),
    ("barrier", ()),
]


@pytest.mark.parametrize(("name", "arguments"), COLLECTIVES, ids=[name for name, _ in COLLECTIVES])
def test_every_collective_is_delegated_and_counted(
    group: ProcessGroup, page: Page, name: str, arguments: tuple[Any, ...]
) -> None:
    held = getattr(group, name)(*arguments)
    group.inner.works[0].end()
    assert held.wait()
    assert (page.slots[0].ints[words.ISSUED], page.slots[0].ints[words.DONE]) == (1, 1)


@pytest.mark.parametrize("name", ["allgather_into_tensor_coalesced", "all_gather_single_coalesced"])
def test_several_tensors_in_one_call_are_one_work(group: ProcessGroup, name: str) -> None:
    held = getattr(group, name)([torch.ones(4), torch.ones(6)], [torch.ones(2), torch.ones(3)])
    for work in group.inner.works:
        work.end()
    assert held.wait()
    assert [tensor.numel() for tensor in held.result()] == [4, 6]
    assert held.get_future().wait() == held.result()
    assert not group.in_flight


def test_point_to_point_is_not_counted(group: ProcessGroup, page: Page) -> None:
    sent, received = group.send([torch.ones(2)], 1), group.recv([torch.ones(2)], 1)
    for work, held in zip(group.inner.works, (sent, received), strict=True):
        work.end()
        assert held.wait()
    assert page.slots[0].ints[words.ISSUED] == 0


def test_the_sequence_sees_operation_size_and_root(group: ProcessGroup) -> None:
    def chain(name: str, *arguments: Any) -> int:
        group.membership.chain = 0
        getattr(group, name)(*arguments)
        return group.membership.chain

    root = _c10d.BroadcastOptions()
    root.rootRank = 1
    calls = [
        ("allreduce", [torch.ones(2)]),
        ("allreduce", [torch.ones(3)]),
        ("allreduce", [torch.ones(2, dtype=torch.float64)]),
        ("broadcast", [torch.ones(2)]),
    ]
    seen = [chain(name, tensors) for name, tensors in calls] + [chain("broadcast", [torch.ones(2)], root)]
    assert len(set(seen)) == len(seen)


def test_a_subgroup_is_not_counted_against_the_world(page: Page, group: ProcessGroup) -> None:
    part = ProcessGroup(0, 1, group.membership, [0], Plain())
    part.inner = Backend()
    part.allreduce([torch.ones(2)])
    assert page.slots[0].ints[words.ISSUED] == 0


def test_the_base_class_is_torchs(group: ProcessGroup) -> None:
    assert isinstance(group, dist.ProcessGroup)
    group.setGroupName("world")
    assert (group.getGroupName(), group.getBackendName()) == ("world", "recovery")
