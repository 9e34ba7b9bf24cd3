"""Where this process is (step, phase, collective), and which faults wait for it there.

Everything here is cheap while nothing is armed for this rank at this step: hooks test `hot` or
`hot_collective` and go on. `awake` is False until the process is known to hold a rank.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import acts, stores, trigger
from .events import EventFile
from .link import Link
from .trigger import Armed, Point

INNER = ("collective.error", "collective.corrupt")


class Agent:
    """The one agent of this process."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.hooks: list[str] = []
        self.await_forward: Callable[[], None] = lambda: None
        """Watch for the next forward; set by the module that hooks it."""
        self._reset()

    def _reset(self) -> None:
        self.awake = False
        self.muted = False
        self.config: Mapping[str, Any] = {}
        self.rank: int | None = None
        self.role = ""
        self.generation: int | None = None
        self.fresh = False
        self.step = 0
        self.phase = "idle"
        self.hot: list[Armed] = []
        self.hot_collective = True
        """True also before the process is awake, so that its first collective wakes it."""
        self.inner: Armed | None = None
        """A fault that the inner seam is to carry out at the next call of a backend."""
        self.part = 0
        """Steps of the primary optimizer since the last step of training (rule every_n)."""
        self.loss: float | None = None
        self._optimizers: list[weakref.ref[Any]] = []
        self._module: weakref.ref[Any] | None = None
        self.kept: list[Any] = []
        """What must outlive a call, for example the tensors of a collective nobody waits for."""
        self._armed: list[Armed] = []
        self._busy = threading.local()
        self._t0 = time.monotonic()
        self.link = Link("")
        self.events = EventFile("/dev/null")

    def after_fork(self) -> None:
        """In a forked child: a template's child starts anew; a child of a rank (a data loader) stays out."""
        was_rank = self.awake and self.rank is not None
        self.link.close()
        self.events.close()
        self._reset()
        if was_rank:
            self.mute()

    def mute(self) -> None:
        """Take no part in this process."""
        self.muted = True
        self.awake = False
        self.hot = []
        self.hot_collective = False

    def note_problem(self, text: str) -> None:
        """Remember a hook that could not be installed; it is told when the process wakes."""
        self.problems.append(text)

    # -- waking ---------------------------------------------------------------------------------------

    def wake(self, in_runtime: bool = False) -> bool:
        """Read the configuration if this process is to take part. Called by hooks until it is awake.

        Args:
            in_runtime: an event of our runtime happened here, so the process may be its supervisor. Hooks
                on torch never say so: a template warms up with a step of its own and must stay asleep.
        """
        if self.awake or self.muted:
            return self.awake
        path = os.environ.get("TORCH_CHAOS_AGENT", "")
        self.role = os.environ.get("RECOVERY_ROLE", "worker")
        rank = _rank()
        if not path or not (rank is not None or (in_runtime and self.role == "supervisor")):
            return False
        if _is_loader_worker():
            self.mute()
            return False
        try:
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"torch-chaos: {path}: {error}\n")
            self.mute()
            return False
        self._start(config, rank)
        return True

    def _start(self, config: Mapping[str, Any], rank: int | None) -> None:
        self.config = config
        self.rank = rank if self.role == "worker" else None
        self._t0 = float(config.get("t0") or time.monotonic())
        self.link = Link(str(config["socket"]), self.set_step)
        self.events = EventFile(str(config["events"]), config.get("node"))
        self.awake = True
        if not self.from_runtime:
            restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            self.generation = 1 + (int(restarts) if restarts.isdigit() else 0)
        self._armed = [Armed(fault) for fault in config.get("faults", ())]
        self._heat()
        if self._armed and self.link.connect():
            self.say_hello()
        self._announce()

    def say_hello(self) -> None:
        """Tell the engine who is at this end; again whenever the rank changes."""
        self.link.send("hello", rank=self.rank, role=self.role, generation=self.generation, argv=sys.argv)

    def _announce(self) -> None:
        from . import digest

        torch = sys.modules.get("torch")
        self.events.write(
            "agent.installed",
            rank=self.rank,
            torch=str(getattr(torch, "__version__", "")),
            hooks=self.hooks,
            problems=self.problems or None,
            digest=digest.NAME if self.config.get("digest") else None,
        )
        if self.config.get("observe") and self.role == "worker" and not self.from_runtime:
            ticks = _own_start_ticks()
            self.events.write("worker.start", rank=self.rank, start_ticks=ticks, argv=sys.argv)

    @property
    def from_runtime(self) -> bool:
        """Whether steps are told by our own runtime and not read off the optimizer."""
        return self.config.get("step_source") == "recovery"

    # A strong reference would keep a DDP wrapper alive that the target has replaced, and its hooks with it.
    @property
    def optimizers(self) -> list[Any]:
        """The optimizers that have stepped in this process, in the order of their first step."""
        return [found for ref in self._optimizers if (found := ref()) is not None]

    def add_optimizer(self, optimizer: Any) -> None:
        """Learn of an optimizer."""
        self._optimizers.append(weakref.ref(optimizer))

    @property
    def module(self) -> Any:
        """The module that is trained, as far as known: the first one called, or its distributed wrapper."""
        return None if self._module is None else self._module()

    @module.setter
    def module(self, module: Any) -> None:
        self._module = weakref.ref(module)

    # -- position -------------------------------------------------------------------------------------

    @property
    def has_inner_fault(self) -> bool:
        """Whether any fault of the run acts at the inner seam, on whichever rank."""
        return any(fault["name"] in INNER for fault in self.config.get("faults", ()))

    def set_rank(self, rank: int | None) -> None:
        """Take over a rank, as a spare does when it is promoted."""
        if rank != self.rank and self.role == "worker":
            self.rank = rank
            self._heat()
            if self._armed:
                self.say_hello()

    def set_step(self, step: int) -> None:
        """Be at the start of a step from now on; a step that is replayed starts again."""
        self.step = step
        self._heat()
        for armed in self.hot:
            armed.begin_step()

    def enter(self, phase: str, user_code: bool = True) -> None:
        """Be in another phase from now on, and meet what waits there."""
        if phase == self.phase:
            return
        self.phase = phase
        if self.hot:
            self.visit(Point("phase", self.step, phase), user_code=user_code)

    def _heat(self) -> None:
        """Keep at hand only the faults that can be due for this rank in this step."""
        self.hot = [armed for armed in self._armed if self._is_near(armed)]
        self.hot_collective = any(
            armed.collective is not None or armed.phase == "bucket" for armed in self.hot
        )

    def _is_near(self, armed: Armed) -> bool:
        if armed.step is not None and armed.event is None and armed.step != self.step:
            return False
        wanted = armed.fault["where"].get("rank")
        if wanted is None or wanted == self.rank:
            return True
        # The supervisor holds no rank; a fault on any rank may be placed at one of its events.
        return self.rank is None and armed.event is not None and not armed.fault.get("inside")

    # -- points ---------------------------------------------------------------------------------------

    def visit(self, point: Point, user_code: bool = True) -> Armed | None:
        """Meet the faults that wait at a point; blocks while the engine acts.

        Args:
            point: where the process is; its time is filled in here.
            user_code: whether an exception raised here reaches the user's code.

        Returns:
            A fault of a collective or of a batch, which the caller is to carry out.
        """
        if getattr(self._busy, "inside", False):
            return None
        point = trigger.with_elapsed(point, time.monotonic() - self._t0)
        self._busy.inside = True
        found: Armed | None = None
        error: BaseException | None = None
        try:
            for armed in [armed for armed in self.hot if self._is_due(armed, point, user_code)]:
                if armed.of_call and found is not None:
                    # One call, one fault; the other one takes the next call that fits.
                    armed.rewind()
                elif self._ask(armed, point) and armed.fault.get("inside"):
                    if armed.of_call:
                        found = armed
                    else:
                        error = acts.perform(self, armed) or error
        finally:
            self._busy.inside = False
        if error is not None:
            raise error
        return found

    def _is_due(self, armed: Armed, point: Point, user_code: bool) -> bool:
        if not user_code and armed.name in acts.NEEDS_USER_CODE:
            return False
        role = str(armed.fault["where"].get("role") or "")
        if self.rank is not None and not self._may_have(role, point):
            return False
        return armed.at(point)

    def _may_have(self, role: str, point: Point) -> bool:
        """Spare the engine a question that can only be answered "not you"."""
        if role.startswith("transfer_") and point.kind == "event":
            return point.fields.get("role") == role.removeprefix("transfer_")
        return role != "replacement" or self.fresh

    def _ask(self, armed: Armed, point: Point) -> bool:
        fields = {**point.fields, "fresh": True} if self.fresh else dict(point.fields)
        if armed.fault["where"].get("role") == "store_host":
            fields["store_host"] = stores.host_rank(self, armed.name)
        collective = {"op": point.op, "groups": point.groups} if point.kind == "collective" else None
        answer = self.link.reach(
            armed.id,
            {
                "rank": self.rank,
                "generation": self.generation,
                "step": point.step,
                "phase": point.phase,
                "event": point.event or None,
                "fields": fields,
                "collective": collective,
            },
        )
        if answer == "skip" and "role" in armed.fault["where"]:
            armed.rewind()
        else:
            self.disarm(armed)
        return answer == "go"

    def disarm(self, armed: Armed) -> None:
        """Forget a fault that has been dealt with."""
        self._armed = [other for other in self._armed if other is not armed]
        self._heat()

    def report(self, op: str, armed: Armed, what: str, proven: bool = True, **data: Any) -> None:
        """Tell the engine what a fault did here: fired, undone or failed."""
        # JSON has no NaN and no infinity.
        plain = {key: value if _is_plain(value) else repr(value) for key, value in data.items()}
        self.link.send(op, fault=armed.id, evidence={"what": what, "proven": proven, "data": plain})


def _is_plain(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _rank() -> int | None:
    text = os.environ.get("RANK", "")
    if text.isdigit():
        return int(text)
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None and os.environ.get("RECOVERY_ROLE") is None and c10d.is_initialized():
        return int(c10d.get_rank())
    return None


def _is_loader_worker() -> bool:
    """A data loader's process inherits RANK, but it is not the rank."""
    module = sys.modules.get("torch.utils.data._utils.worker")
    return getattr(module, "_worker_info", None) is not None


def _own_start_ticks() -> int:
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


AGENT = Agent()
