"""A process group that outlives its generations: the inner backend is swapped, this object stays.

Every collective is overridden and delegates to the inner object: an inherited method would run in C++
with the GIL held and deadlock with gloo's own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from recovery.errors import Interrupted, OutsideStep
from recovery.shell.membership import Membership
from recovery.shell.rescue import Stranded, Waiting

_c10d: Any = torch._C._distributed_c10d
# The stubs give every collective several overloads; this class has the one form that callers use.
_Base: Any = dist.ProcessGroup


class Held(_c10d.Work):  # type: ignore[misc]
    """A collective in flight. A failure is flagged in the membership, never raised through C++."""

    def __init__(
        self, group: ProcessGroup, inner: Any, outputs: list[torch.Tensor], *, counts: bool = True
    ) -> None:
        super().__init__()
        self._group = group
        self._generation = group.membership.generation
        self._inner = inner
        self._outputs = outputs
        self._counts = counts
        self._told: threading.Event | None = None
        """Set when the completion callback, if there is one, has run or will not."""
        self._outer: Future[list[torch.Tensor]] | None = None
        self._once = threading.Lock()
        group.in_flight.add(self)

    def wait(self, timeout: Any = None) -> bool:
        self._await()
        self._ended()
        membership = self._group.membership
        if membership.error is not None and not membership.in_step:
            raise OutsideStep(f"a collective outside run.step failed: {membership.error}")
        return True

    def get_future(self) -> Future[list[torch.Tensor]]:
        # Completed with the tensors even after a failure: an exception in a future that DDP's reducer
        # waits for is a segmentation fault. The flag keeps the result from being used.
        outer = self._outer = Future()
        self._told = threading.Event()

        def completed(inner: Future[Any]) -> None:
            try:
                inner.value()
            except Exception as error:
                self._failed(error)
            self._ended()
            self._complete()

        self._inner.get_future().add_done_callback(completed)
        return outer

    def is_completed(self) -> bool:
        return bool(self._inner.is_completed())

    def is_success(self) -> bool:
        return bool(self._inner.is_completed()) and self._group.membership.error is None

    def result(self) -> list[torch.Tensor]:
        return self._outputs

    def synchronize(self) -> None:
        self.wait()

    def settle(self) -> None:
        """Wait until the backend has let go of the tensors and its callback has run."""
        self._await()
        if self._told is not None:
            self._told.wait()

    def give_up(self) -> None:
        """Nothing will end it any more: whoever waits in its future need not."""
        if self._told is None or self._told.is_set() or self._inner.is_completed():
            return
        self._group.waiting.give_up(self._inner)
        self._failed(Stranded("gloo waits on for a connection that is gone"))
        self._complete()

    def _await(self) -> None:
        waiting = self._group.waiting
        try:
            waiting.wait(self._inner) if self._counts else waiting.wait_message(self._inner)
        except Stranded as error:
            self._failed(error)
            self._complete()
        except RuntimeError as error:
            self._failed(error)

    def _complete(self) -> None:
        """End the future, if there is one: by the backend's callback or by whoever gave the work up."""
        if self._outer is None or self._told is None or not self._once.acquire(blocking=False):
            return
        self._outer.set_result(self._outputs)
        self._told.set()

    def _failed(self, error: Exception) -> None:
        membership = self._group.membership
        if membership.generation == self._generation:
            membership.fail(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")

    def _ended(self) -> None:
        """Called by whoever notices first: the waiting thread or the backend's."""
        try:
            self._group.in_flight.remove(self)
        except KeyError:
            return
        if self._counts:
            self._group.finished()


def _flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)


class ProcessGroup(_Base):  # type: ignore[misc]
    """What `torch.distributed` and users hold. `inner` is the current generation's backend, or None."""

    def __init__(
        self, rank: int, size: int, membership: Membership, ranks: list[int], waiting: Waiting
    ) -> None:
        super().__init__(rank, size)
        self.membership = membership
        self.waiting = waiting
        self.ranks = ranks
        self.is_world = len(ranks) == membership.page.world_size
        self.inner: Any = None
        self.in_flight: set[Held] = set()
        self._name = ""
        self._description = ""

    # names: the base class keeps them with a backend, which this group does not have
    def getBackendName(self) -> str:
        return "recovery"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def _get_backend(self, device: torch.device) -> Any:
        return self.inner

    def let_go(self) -> None:
        """Drop the inner backend, with nothing of it in flight.

        A gloo backend joins its threads when it is destroyed, with the GIL held, and a callback in one of
        them needs the GIL: destroyed too early, both would wait for ever.
        """
        for held in list(self.in_flight):
            held.settle()
        self.in_flight.clear()
        inner, self.inner = self.inner, None
        self.waiting.let_go(inner)

    def finished(self) -> None:
        if self.is_world:
            self.membership.finished()

    def run(self, name: str, outputs: Any, *arguments: Any) -> Held:
        """Enter one collective of the inner backend.

        Raises:
            Interrupted: the generation is over (inside a step).
            OutsideStep: the same outside a step.
        """
        self.membership.gate()
        held = list(_flat(outputs))
        if self.is_world:
            self.membership.issue(_fingerprint(name, arguments))
        try:
            work = getattr(self.inner, name)(*arguments)
        except RuntimeError as error:
            self.membership.fail(f"{type(error).__name__}: {str(error).splitlines()[0][:200]}")
            if self.membership.in_step:
                raise Interrupted(str(error)) from None
            raise OutsideStep(f"a collective outside run.step failed: {error}") from error
        return Held(self, work, held)

    # ------------------------------------------------------------------ collectives

    def allreduce(self, tensors: Any, opts: Any = None) -> Held:
        return self.run("allreduce", tensors, tensors, opts or _c10d.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Held:
        return self.run("allreduce_coalesced", tensors, tensors, opts or _c10d.AllreduceCoalescedOptions())

    def broadcast(self, tensors: Any, opts: Any = None) -> Held:
        return self.run("broadcast", tensors, tensors, opts or _c10d.BroadcastOptions())

    def reduce(self, tensors: Any, opts: Any = None) -> Held:
        return self.run("reduce", tensors, tensors, opts or _c10d.ReduceOptions())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("allgather", outputs, outputs, inputs, opts or _c10d.AllgatherOptions())

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("allgather_coalesced", outputs, outputs, inputs, opts or _c10d.AllgatherOptions())

    def _allgather_base(self, output: Any, input: Any, opts: Any = None) -> Held:
        return self.run("_allgather_base", output, output, input, opts or _c10d.AllgatherOptions())

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("reduce_scatter", outputs, outputs, inputs, opts or _c10d.ReduceScatterOptions())

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None) -> Held:
        return self.run("_reduce_scatter_base", output, output, input, opts or _c10d.ReduceScatterOptions())

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("alltoall", outputs, outputs, inputs, opts or _c10d.AllToAllOptions())

    def alltoall_base(
        self, output: Any, input: Any, output_sizes: Any, input_sizes: Any, opts: Any = None
    ) -> Held:
        options = opts or _c10d.AllToAllOptions()
        return self.run("alltoall_base", output, output, input, output_sizes, input_sizes, options)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("gather", outputs, outputs, inputs, opts or _c10d.GatherOptions())

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self.run("scatter", outputs, outputs, inputs, opts or _c10d.ScatterOptions())

    def barrier(self, opts: Any = None) -> Held:
        return self.run("barrier", None, opts or _c10d.BarrierOptions())

    # Point to point is not counted: ranks legitimately send and receive different numbers of messages.
    def send(self, tensors: Any, destination: int, tag: int = 0) -> Held:
        return self._point_to_point("send", tensors, destination, tag)

    def recv(self, tensors: Any, source: int, tag: int = 0) -> Held:
        return self._point_to_point("recv", tensors, source, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Held:
        return self._point_to_point("recv_anysource", tensors, tag)

    def _point_to_point(self, name: str, tensors: Any, *arguments: Any) -> Held:
        self.membership.gate()
        work = getattr(self.inner, name)(tensors, *arguments)
        return Held(self, work, list(_flat(tensors)), counts=False)

    # ------------------------------------------------------------------ several tensors in one call

    def _each(self, one: Callable[..., Held], outputs: Any, inputs: Any, opts: Any) -> Held:
        works = [one(output, input, opts) for output, input in zip(outputs, inputs, strict=True)]
        return _All(self, works)

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self._each(self._allgather_base, outputs, inputs, opts)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Held:
        return self._each(self._reduce_scatter_base, outputs, inputs, opts)

    # The names that torch 2.13 gave to the flat forms.
    all_gather_single = _allgather_base
    reduce_scatter_single = _reduce_scatter_base
    all_to_all_single = alltoall_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self.barrier().wait()


class _All(Held):
    """Several collectives as one work."""

    def __init__(self, group: ProcessGroup, works: list[Held]) -> None:
        super().__init__(group, None, [tensor for work in works for tensor in work.result()], counts=False)
        group.in_flight.discard(self)  # its parts are there themselves
        self._works = works

    def wait(self, timeout: Any = None) -> bool:
        return all(work.wait() for work in self._works)

    def get_future(self) -> Future[list[torch.Tensor]]:
        outer: Future[list[torch.Tensor]] = Future()
        collected = torch.futures.collect_all([work.get_future() for work in self._works])
        collected.add_done_callback(lambda _: outer.set_result(self._outputs))
        return outer

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)


def _fingerprint(name: str, arguments: tuple[Any, ...]) -> str:
    """What must be equal on every rank: operation, sizes, types, and the reduction or root."""
    parts = [name]
    options = arguments[-1]
    if hasattr(options, "reduceOp"):
        parts.append(str(options.reduceOp.op))
    if hasattr(options, "rootRank"):
        parts.append(str(options.rootRank))
    if name not in ("alltoall", "alltoall_base", "gather", "scatter"):
        parts += [f"{tensor.numel()}{tensor.dtype}" for tensor in _flat(arguments[0])]
    return "|".join(parts)
