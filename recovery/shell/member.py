"""A member's hands: it carries out what `recovery.core.member` decides, and tells it what came of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from recovery import events
from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.member import Member as Protocol
from recovery.core.member import Stage
from recovery.core.pace import StepTimes
from recovery.errors import Interrupted, RecoveryError
from recovery.shell import transfer, wire
from recovery.shell.agreement import Agreement
from recovery.shell.backends import Backend, backend_named
from recovery.shell.insider import Insider
from recovery.shell.link import Link, SupervisorGone
from recovery.shell.membership import Membership
from recovery.shell.process_group import ProcessGroup
from recovery.shell.rendezvous import RpcStore, form_gloo
from recovery.state import StateTree

_c10d: Any = torch._C._distributed_c10d


class Member:
    """Owns the process groups of this process and its place in the generation."""

    def __init__(self, link: Link, backend: str, tree: StateTree) -> None:
        assert link.rank is not None
        self.link = link
        self.rank = link.rank
        self.tree = tree
        self.backend: Backend = backend_named(backend)
        self.membership = Membership(link.page, link.rank)
        self.groups: list[ProcessGroup] = []
        self.waiting = self.backend.waiting(lambda: link.page.open_generation, self._give_up_futures)
        self.protocol = Protocol(link.rank, link.proc)
        self.result: Any = None
        """What the last committed step returned here (or at the peer it was adopted from)."""
        self.again = False
        self._step_times = StepTimes()
        self._manifest: dict[str, Any] = {}
        self.world = self._init_torch_distributed()
        if not self.backend.released_from_outside or os.environ.get("RECOVERY_RELEASE") == "inside":
            Insider(link.release, self._abort_groups)

    def _init_torch_distributed(self) -> ProcessGroup:
        def create(options: Any, _: Any = None) -> ProcessGroup:
            ranks = list(options.global_ranks_in_group) or list(range(self.link.page.world_size))
            group = ProcessGroup(options.group_rank, options.group_size, self.membership, ranks, self.waiting)
            self.groups.append(group)
            return group

        if "recovery" not in dist.Backend.backend_list:
            dist.Backend.register_backend("recovery", create, extended_api=True, devices=["cpu", "cuda"])
        dist.init_process_group(
            "recovery", store=_c10d.HashStore(), rank=self.rank, world_size=self.link.page.world_size
        )
        return self.groups[0]

    # ------------------------------------------------------------------ leaving a generation

    @property
    def version(self) -> int | None:
        """Committed steps; None while this process holds no state."""
        return self.protocol.version

    def generation_is_over(self) -> bool:
        membership = self.membership
        return self.protocol.is_over(membership.page.open_generation, membership.error is not None)

    def abandon(self, reason: str) -> None:
        """Say that this generation is broken, drop its connections, undo a step that has begun."""
        membership = self.membership
        detail, kind = membership.error or reason, membership.error_kind
        self._tell(o.Broken(self.protocol.generation, kind, detail, membership.suspect))

    def _abort_groups(self) -> None:
        """From the releasing thread: end what is in flight; the main thread then drops the groups.

        What the library recorded of its last collectives is read first: after the abort it is gone.
        """
        if trace := self.backend.trace():
            events.emit("group.trace", rank=self.rank, generation=self.membership.generation, entries=trace)
        for group in self.groups:
            inner = group.inner
            if inner is not None:
                self.backend.abort(inner)

    def _drop_groups(self) -> None:
        for group in self.groups:
            if group.inner is not None:
                self.backend.abort(group.inner)
                group.let_go()
        agreement, self.membership.agreement = self.membership.agreement, None
        if agreement is not None:
            agreement.let_go()

    def _give_up_futures(self) -> None:
        """From the rescuing thread."""
        for group in self.groups:
            for held in list(group.in_flight):
                held.give_up()

    # ------------------------------------------------------------------ joining the next one

    def regroup(self, *, finished: bool = False) -> bool:
        """Report and wait until the next generation stands, with this rank at its agreed version.

        Returns False if the coordinator lets everyone leave instead.

        Raises:
            StateError: this process's model differs from its peers'.
            SupervisorGone: the job has ended.
        """
        while True:
            # One walk over the state serves the report and, if this rank is to give it, the transfer.
            self._manifest = self.tree.manifest()
            self._tell(o.AtRest(self._manifest["digest"]["total"], finished))
            while self.protocol.stage is Stage.WAITING:
                message = self._receive()
                self._tell(m.Leave() if message["op"] == "leave" else wire.opening(message))
            if self.protocol.stage is Stage.GONE:
                return False
            if self.protocol.joined:
                return True

    # ------------------------------------------------------------------ carrying out the protocol

    def _tell(self, event: o.Event) -> None:
        for action in self.protocol.handle(event, time.monotonic()):
            match action:
                case m.Ready() | m.Failed() | m.Committed():
                    self._send(**wire.report(action))
                case m.Formed(generation=generation):
                    self._send(**wire.report(action))
                    events.emit("generation.formed", generation=generation, rank=self.rank, **_resources())
                    if generation > 1:
                        events.tell("recovery.resume", rank=self.rank, generation=generation)
                case o.Enter(generation=generation, version=version):
                    self._drop_groups()
                    self.membership.enter(generation, version)
                    events.tell("member.enter", rank=self.rank, generation=generation)
                case o.Connect(generation=generation):
                    self._attempt(lambda g=generation: self._connect(g))  # type: ignore[misc]
                case o.Give(opening=opening):
                    self._attempt(lambda opened=opening: self._give(opened))  # type: ignore[misc]
                case o.Take(opening=opening):
                    self._attempt(lambda opened=opening: self._take(opened))  # type: ignore[misc]
                case o.Drop():
                    self.membership.leave()
                    self._drop_groups()
                case o.Restore():
                    self.tree.rollback()
                case o.Commit(again=again):
                    self.again = again

    def _attempt(self, form: Callable[[], o.Event]) -> None:
        """One part of forming a generation; what goes wrong breaks the generation, not the process."""
        try:
            outcome = form()
        except (RuntimeError, EOFError) as error:
            if isinstance(error, RecoveryError):
                raise
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            self.membership.fail(f"forming generation {self.protocol.generation}: {reason}")
            self.abandon(reason)
            return
        self._tell(outcome)

    def _connect(self, generation: int) -> o.Event:
        address = self.link.address
        with self.waiting.forming(generation):
            for number, group in enumerate(self.groups):
                store = RpcStore(self.link.store, generation, f"{number}/")
                inner = self.backend.form(store, group.rank(), group.size(), generation, address)
                group.inner = events.filtered(inner)
            if address:
                # Shared memory ends at the node: between nodes the members tell each other what they ran.
                store = RpcStore(self.link.store, generation, "agreement/")
                group = form_gloo(store, self.rank, self.world.size(), generation, address)
                self.membership.agreement = Agreement(group, self.rank, self.world.size(), self.waiting)
        return o.Connected(generation)

    def _announce(self, opening: m.Open, role: str) -> transfer.Plan:
        events.tell(
            "recovery.transfer",
            rank=self.rank,
            generation=opening.generation,
            version=opening.version,
            sources=list(opening.holders),
            targets=list(opening.receivers),
            role=role,
        )
        return transfer.Plan(self.rank, opening.holders, opening.receivers, opening.digest)

    def _give(self, opening: m.Open) -> o.Event:
        plan = self._announce(opening, "source")
        group, device = self.world.inner, self.backend.device()
        sent = transfer.send(group, self.tree, self._manifest, plan, self._extra(), device, self.waiting)
        events.emit(
            "state.send",
            rank=self.rank,
            generation=opening.generation,
            version=opening.version,
            bytes=sent,
            digest=opening.digest,
        )
        return o.Given(opening.generation, sent)

    def _take(self, opening: m.Open) -> o.Event:
        plan = self._announce(opening, "target")
        result = transfer.receive(self.world.inner, self.tree, plan, self.backend.device(), self.waiting)
        events.emit(
            "state.receive",
            rank=self.rank,
            generation=opening.generation,
            version=opening.version,
            bytes=result.bytes,
            digest=result.digest,
            sources=list(opening.holders),
            verified=result.digest == opening.digest or opening.digest is None,
        )
        self.result = result.extra.get("result")
        return o.Taken(opening.generation, result.digest, result.bytes)

    def _extra(self) -> dict[str, Any]:
        try:
            json.dumps(self.result, allow_nan=False)
        except (TypeError, ValueError):
            return {}
        return {"result": self.result}

    # ------------------------------------------------------------------ inside a step

    def synchronize_buffers(self) -> None:
        """Make the buffers that each rank computed from its own batch equal to logical rank 0's."""
        by_type: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
        for buffer in self.tree.sync_buffers():
            by_type.setdefault((buffer.dtype, buffer.device), []).append(buffer)
        for buffers in by_type.values():
            flat = torch.cat([buffer.reshape(-1) for buffer in buffers])
            options = _c10d.BroadcastOptions()
            options.rootRank = 0
            self.world.broadcast([flat], options).wait()
            if self.membership.error is not None:
                raise Interrupted(self.membership.error)
            if self.rank != 0:
                with torch.no_grad():
                    for buffer, values in zip(buffers, flat.split([b.numel() for b in buffers]), strict=True):
                        buffer.copy_(values.view(buffer.shape))

    def check_replicated(self, step: int) -> None:
        """After the very first step, make sure that what is protected is the same on every rank.

        Raises:
            RecoveryError: something is rank-local: if its rank died, no one could give it back.
        """
        opening = self.protocol.opening
        if opening is None or not opening.genesis or step:
            return
        parts = self.tree.digest().parts
        names = sorted(parts)
        device = self.backend.device()
        mine = torch.tensor([int(parts[name][:15], 16) for name in names], device=device)
        theirs = [torch.empty_like(mine) for _ in range(self.world.size())]
        self.world.allgather([theirs], [mine]).wait()
        if self.membership.error is not None:
            raise Interrupted(self.membership.error)
        for position, name in enumerate(names):
            if len({int(values[position]) for values in theirs}) > 1:
                raise RecoveryError(
                    f"'{name}' differs between ranks after a step: only one rank holds its value, and no"
                    " one could give it back\n"
                    f"  mend: make '{name}' the same on every rank (all_reduce what goes into it), or"
                    " derive it from (run.seed, run.rank, step)"
                )

    def begin(self, index: int) -> None:
        """Step `index` begins: from here on an interruption rolls back."""
        self._tell(o.Begun(index))
        self.membership.begin_step(index)

    def commit(self, index: int, result: Any, step_s: float) -> None:
        self.result = result
        self.membership.slot.committed(index + 1, self._step_times.add(step_s))
        self._tell(o.Done(index))

    # ------------------------------------------------------------------ the channel

    def _send(self, **message: Any) -> None:
        try:
            self.link.control.send(**message)
        except OSError:
            raise SupervisorGone(1) from None

    def _receive(self) -> dict[str, Any]:
        try:
            return self.link.control.receive()
        except (EOFError, OSError):
            raise SupervisorGone(1) from None


def _resources() -> dict[str, int]:
    """What must stay flat over generations: open descriptors, threads, resident memory."""
    with open("/proc/self/statm", "rb") as statm:
        pages = int(statm.read().split()[1])
    return {
        "fds": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
    }
