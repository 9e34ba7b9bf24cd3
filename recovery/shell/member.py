"""A member's side of the protocol: leave, report, form, adopt, commit. It obeys the coordinator."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import torch
import torch.distributed as dist

from recovery import events
from recovery.errors import Interrupted, RecoveryError
from recovery.shell import transfer
from recovery.shell.backends import Backend, backend_named
from recovery.shell.insider import Insider
from recovery.shell.link import Link, SupervisorGone
from recovery.shell.membership import Membership
from recovery.shell.process_group import ProcessGroup
from recovery.shell.rendezvous import RpcStore
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
        self.version: int | None = None
        """Committed steps; None while this process holds no state."""
        self.result: Any = None
        """What the last committed step returned here (or at the peer it was adopted from)."""
        self.again = False
        self._newest_seen = 0
        self._first_commit = False
        self._genesis = False
        self.world = self._init_torch_distributed()
        if not self.backend.released_from_outside or os.environ.get("RECOVERY_RELEASE") == "inside":
            Insider(link.release, self._abort_groups)

    def _init_torch_distributed(self) -> ProcessGroup:
        def create(options: Any, _: Any = None) -> ProcessGroup:
            ranks = list(options.global_ranks_in_group) or list(range(self.link.page.world_size))
            group = ProcessGroup(options.group_rank, options.group_size, self.membership, ranks)
            self.groups.append(group)
            return group

        if "recovery" not in dist.Backend.backend_list:
            dist.Backend.register_backend("recovery", create, extended_api=True, devices=["cpu", "cuda"])
        dist.init_process_group(
            "recovery", store=_c10d.HashStore(), rank=self.rank, world_size=self.link.page.world_size
        )
        return self.groups[0]

    # ------------------------------------------------------------------ leaving a generation

    def generation_is_over(self) -> bool:
        membership = self.membership
        return membership.error is not None or (
            membership.page.open_generation != membership.generation or not membership.generation
        )

    def abandon(self, reason: str) -> None:
        """Say that this generation is broken, and drop its connections."""
        membership = self.membership
        if membership.generation:
            self._send(
                op="failed",
                generation=membership.generation,
                kind=membership.error_kind,
                detail=membership.error or reason,
                suspect=membership.suspect,
            )
        membership.leave()
        self._drop_groups()

    def _abort_groups(self) -> None:
        """From the releasing thread: end what is in flight; the main thread then drops the groups."""
        for group in self.groups:
            inner = group.inner
            if inner is not None:
                self.backend.abort(inner)

    def _drop_groups(self) -> None:
        for group in self.groups:
            inner, group.inner = group.inner, None
            if inner is not None:
                self.backend.abort(inner)

    # ------------------------------------------------------------------ joining the next one

    def regroup(self, *, finished: bool = False) -> bool:
        """Report and wait until the next generation stands, with this rank at its agreed version.

        Returns False if the coordinator lets everyone leave instead.

        Raises:
            StateError: this process's model differs from its peers'.
            SupervisorGone: the job has ended.
        """
        while True:
            digest = self.tree.digest().total
            self._send(op="ready", version=self.version, digest=digest, finished=finished)
            message = self._receive()
            if message["op"] == "leave":
                return False
            if self._form(message):
                return True

    def finish(self) -> bool:
        """This rank has no step left. Returns True if it must go on (another generation opened)."""
        return self.regroup(finished=True)

    def _form(self, message: dict[str, Any]) -> bool:
        generation = int(message["generation"])
        membership = self.membership
        self._drop_groups()
        membership.enter(generation, self.version or 0)
        events.tell("member.enter", rank=self.rank, generation=generation)
        try:
            for number, group in enumerate(self.groups):
                store = RpcStore(self.link.store, generation, f"{number}/")
                inner = self.backend.form(store, group.rank(), group.size(), generation)
                group.inner = events.filtered(inner)
            started = time.monotonic()
            received = self._agree(message)
        except (RuntimeError, EOFError) as error:
            if isinstance(error, RecoveryError):
                raise
            reason = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            membership.fail(f"forming generation {generation}: {reason}")
            self.abandon(reason)
            return False
        self._first_commit = True
        self._send(
            op="formed",
            generation=generation,
            transfer_s=time.monotonic() - started if message["receivers"] else 0.0,
            bytes=received,
        )
        events.emit("generation.formed", generation=generation, rank=self.rank, **_resources())
        events.tell("recovery.resume", rank=self.rank, generation=generation)
        return True

    def _agree(self, message: dict[str, Any]) -> int:
        """Send or adopt state as the coordinator decided; returns the bytes received."""
        version, holders = int(message["version"]), tuple(message["holders"])
        receivers, generation = tuple(message["receivers"]), int(message["generation"])
        self._genesis = bool(message["genesis"])
        plan = transfer.Plan(self.rank, holders, receivers, message["digest"])
        device = self.backend.device()
        received = 0
        if receivers and (self.rank in holders or self.rank in receivers):
            role = "source" if self.rank in holders else "target"
            events.tell(
                "recovery.transfer",
                rank=self.rank,
                generation=generation,
                version=version,
                sources=list(holders),
                targets=list(receivers),
                role=role,
            )
            if role == "source":
                sent = transfer.send(self.world.inner, self.tree, plan, self._extra(), device)
                fields = {"bytes": sent, "digest": message["digest"]}
                events.emit("state.send", rank=self.rank, generation=generation, version=version, **fields)
            else:
                # From here on this process holds neither its old state nor, yet, the new one.
                self.version = None
                result = transfer.receive(self.world.inner, self.tree, plan, device)
                received = result.bytes
                verified = result.digest == message["digest"] or message["digest"] is None
                events.emit(
                    "state.receive",
                    rank=self.rank,
                    generation=generation,
                    version=version,
                    bytes=received,
                    digest=result.digest,
                    sources=list(holders),
                    verified=verified,
                )
                if not verified:
                    raise RuntimeError(f"received {result.digest}, agreed was {message['digest']}")
                self.result = result.extra.get("result")
        self.version = version
        return received

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
        if not (self._genesis and step == 0):
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

    def commit(self, index: int, result: Any, step_s: float) -> None:
        self.version = index + 1
        self.result = result
        self.again = index < self._newest_seen
        self._newest_seen = max(self._newest_seen, index + 1)
        self.membership.slot.committed(self.version, step_s)
        if self._first_commit:
            self._first_commit = False
            self._send(op="committed", generation=self.membership.generation, version=self.version)

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
