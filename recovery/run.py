"""What a training script holds: `join()` gives a `Run`, `Run.step` is the transaction."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from recovery import events, seeding
from recovery.data_parallel import DataParallel
from recovery.errors import Interrupted, RecoveryError
from recovery.shell.link import Link, current_link
from recovery.shell.member import Member
from recovery.shell.page import BUSY_UNTIL
from recovery.state import StateTree

T = TypeVar("T")

_current: Run | None = None


def join(*, backend: str | None = None) -> Run:
    """Take part in the job; blocks until this process holds a rank (a spare waits here).

    Args:
        backend: "gloo" or "nccl"; by default nccl where CUDA is available.

    Raises:
        RecoveryError: the process was not started by `python -m recovery.launch`, or has joined before.
    """
    global _current
    if _current is not None:
        raise RecoveryError("this process has joined already\n  mend: call recovery.join() once")
    link = current_link()
    if link is None:
        raise RecoveryError(
            "recovery.join() needs a supervisor\n"
            f"  mend: python -m recovery.launch --nproc-per-node 4 {' '.join(sys.argv)}"
        )
    link.wait_for_rank()
    _current = Run(link, backend or ("nccl" if torch.cuda.is_available() else "gloo"))
    return _current


class Run:
    """One process's part in a job of `world_size` ranks.

    A step is a transaction: everything protected changes with it or not at all, on every rank. Gradients
    are cleared when it starts, so accumulation belongs inside one step.
    """

    def __init__(self, link: Link, backend: str) -> None:
        assert link.rank is not None
        self.rank = link.rank
        self.world_size = link.page.world_size
        self.seed = link.seed
        self._tree = StateTree()
        self._protected: dict[str, object] = {}
        self._member = Member(link, backend, self._tree)
        self._notes: dict[str, Any] = {}
        self._digests = os.environ.get("RECOVERY_DIGEST") == "1"
        self._in_step = False
        self._optimizer_steps = 0
        self._fresh = True
        # Every rank builds the same model: its initial values are a function of the seed alone.
        seeding.seed_everything(self.seed, -1, -1)

    @property
    def generation(self) -> int:
        """The current generation, from 1; 0 before the first and while a new one forms."""
        return self._member.membership.generation

    @property
    def process_group(self) -> Any:
        """The stable `recovery.ProcessGroup`; also `torch.distributed`'s default group."""
        return self._member.world

    @property
    def committed(self) -> int:
        """Number of committed steps."""
        return self._member.version or 0

    # ------------------------------------------------------------------ what is protected

    def protect(self, **objects: object) -> None:
        """Everything that a step may change: modules, optimizers, schedulers, scaler, EMA, own objects
        with state_dict/load_state_dict. May be called several times, before `steps()`.

        Raises:
            StateError: an object, or something in it, can't be copied exactly or is rank-local.
            RecoveryError: a name is used twice, or training has begun.
        """
        for name, thing in objects.items():
            if name in self._protected:
                raise RecoveryError(f"protect({name}=...) was given twice\n  mend: use another name")
            if not self._fresh:
                raise RecoveryError(
                    f"protect({name}=...) came after training had begun\n"
                    "  mend: call run.protect before run.steps"
                )
            if isinstance(thing, DataParallel):
                thing = thing.module
            self._tree.add(name, thing)
            self._protected[name] = thing
            if isinstance(thing, torch.optim.Optimizer):
                thing.register_step_pre_hook(self._before_optimizer)

    def data_parallel(self, module: torch.nn.Module, **arguments: Any) -> DataParallel:
        """Average the module's gradients over all ranks. `arguments` go to DistributedDataParallel.

        Raises:
            RecoveryError: an argument that the runtime has to set itself.
        """
        return DataParallel(module, self._member.world, lambda: (self.generation, self.committed), arguments)

    def _before_optimizer(self, *_: Any) -> None:
        """Never step with the output of a failed collective."""
        self._optimizer_steps += 1
        membership = self._member.membership
        if membership.error is not None and membership.in_step:
            raise Interrupted(membership.error)

    # ------------------------------------------------------------------ training

    def steps(self, total: int) -> Iterator[int]:
        """Indices of the steps still to be done, in order; ends when every rank has committed all.

        Each index is yielded with all generators seeded from (seed, rank, index).

        Raises:
            RecoveryError: the loop went on without `run.step`.
        """
        if not self._protected:
            raise RecoveryError("nothing is protected\n  mend: call run.protect(model=..., optimizer=...)")
        self._fresh = False
        self._regroup()
        while True:
            while (index := self.committed) < total:
                seeding.seed_everything(self.seed, self.rank, index)
                yield index
                if self.committed == index:
                    raise RecoveryError(
                        f"step {index} was yielded but not run\n  mend: call run.step(function, {index}) once"
                    )
            if not self._regroup(finished=True):
                return

    def step(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run `function` as one transaction: replayed until it commits, then its result is returned.

        Side effects outside the protected state happen once per attempt. If a peer had committed this
        step before a fault and this rank had not, the peer's state is adopted and the peer's result is
        returned, provided that it is plain data (numbers, strings, lists, dicts), else None.

        Raises:
            RecoveryError: nested steps, or gradients left for a later step.
        """
        if self._in_step:
            raise RecoveryError("run.step inside run.step\n  mend: call the inner function directly")
        member = self._member
        index = self.committed
        while self.committed == index:
            if member.generation_is_over():
                member.abandon("the generation has ended")
            elif self._attempt(index, function, args, kwargs):
                return member.result  # type: ignore[no-any-return]
            self._regroup()
        return member.result  # type: ignore[no-any-return]

    def _regroup(self, *, finished: bool = False) -> bool:
        """Join the next generation; a step that is adopted there is committed for this rank. False when
        everyone leaves instead.
        """
        member = self._member
        before = member.version
        joined = member.regroup(finished=finished)
        if member.version and member.version != before:
            fields = self._commit_fields(member.version - 1, adopted=True, again=False)
            events.emit("step.commit", **fields)
        return joined

    def _attempt(self, index: int, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
        member, membership = self._member, self._member.membership
        started = time.monotonic()
        seeding.seed_everything(self.seed, self.rank, index)
        self._clear_gradients()
        self._tree.capture()
        self._notes = {}
        self._optimizer_steps = 0
        self._in_step = True
        member.begin(index)
        events.emit("step.begin", rank=self.rank, generation=self.generation, step=index)
        try:
            result = function(*args, **kwargs)
            events.tell("step.seal", step=index)
            self._refuse_left_gradients()
            member.synchronize_buffers()
            member.check_replicated(index)
            membership.seal()
        except Interrupted as interrupted:
            self._roll_back(index, str(interrupted))
            return False
        except Exception:
            if membership.error is None:
                raise
            self._roll_back(index, membership.error)
            return False
        finally:
            self._in_step = False
            membership.end_step()
        member.commit(index, result, time.monotonic() - started)
        events.emit("step.commit", **self._commit_fields(index, adopted=False, again=member.again))
        return True

    def _clear_gradients(self) -> None:
        for thing in self._protected.values():
            if isinstance(thing, torch.optim.Optimizer):
                for group in thing.param_groups:
                    for parameter in group["params"]:
                        parameter.grad = None

    def _roll_back(self, index: int, reason: str) -> None:
        generation = self.generation
        self._member.abandon(reason)
        events.emit("step.rollback", rank=self.rank, generation=generation, step=index, reason=reason)

    def _refuse_left_gradients(self) -> None:
        if self._optimizer_steps or any(hasattr(o, "get_scale") for o in self._protected.values()):
            return
        left = self._tree.unfinished_gradients()
        if left:
            raise RecoveryError(
                f"a step ended with gradients ({left[0]}, ...) but without an optimizer step\n"
                "  mend: accumulate all micro-batches inside one run.step"
            )

    def _commit_fields(self, index: int, *, adopted: bool, again: bool) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "rank": self.rank,
            "generation": self.generation,
            "step": index,
            "adopted": adopted,
            "again": again,
        }
        if isinstance(self._member.result, float):
            fields["loss"] = self._member.result
        if self._digests:
            digest = self._tree.digest()
            fields["digest"], fields["parts"] = digest.total, dict(digest.parts)
            if not adopted:
                fields["rng"] = seeding.digest()
        if self._notes and not adopted:
            fields["notes"] = self._notes
        return fields

    # ------------------------------------------------------------------ saying more

    def note(self, **values: Any) -> None:
        """Attach plain data to this step's record; kept only if the step commits.

        Raises:
            RecoveryError: a value can't be written as JSON.
        """
        try:
            json.dumps(values)
        except (TypeError, ValueError) as error:
            raise RecoveryError(f"run.note takes plain data: {error}") from error
        self._notes.update(values)

    @contextlib.contextmanager
    def busy(self, name: str, limit: float) -> Iterator[None]:
        """Declare a long phase: this rank may be silent for `limit` seconds without being accused."""
        floats = self._member.membership.slot.floats
        before = floats[BUSY_UNTIL]
        floats[BUSY_UNTIL] = time.monotonic() + limit
        events.emit("busy.begin", rank=self.rank, name=name, limit_s=limit)
        try:
            yield
        finally:
            # First: whoever reads that it is busy no more must find that it was alive just now.
            self._member.membership.slot.alive()
            floats[BUSY_UNTIL] = before
            events.emit("busy.end", rank=self.rank, name=name, limit_s=limit)
