"""Collectives of a script that was not changed.

DDP issues its all-reduces from C++, so patching `torch.distributed.all_reduce` would miss them. Inside
`_new_process_group_helper` the name `ProcessGroup` stands for a maker of groups that are Python objects
and delegate every collective to a real group. Every collective must be overridden and must go to an
*inner object*: an inherited one runs C++ with the GIL held and deadlocks with gloo's own thread. A group
that already is a Python subclass is not replaced; the methods of its class are watched.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from . import act_collective, stores
from .trigger import Point

if TYPE_CHECKING:
    from collections.abc import Callable

    from .core import Agent

# Method of a process group -> name of the collective in triggers. Names that a torch lacks are left out.
COLLECTIVES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "broadcast": "broadcast",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "_allgather_base": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "all_to_all_single": "all_to_all",
    "gather": "gather",
    "scatter": "scatter",
    "barrier": "barrier",
    "monitored_barrier": "barrier",
    "send": "send",
    "recv": "recv",
    "recv_anysource": "recv",
}
# Not collectives, but they act on the group's own state, which is the inner group's.
DELEGATED = (
    "get_group_store",
    "abort",
    "shutdown",
    "set_timeout",
    "_start_coalescing",
    "_end_coalescing",
    "_wait_for_pending_works",
    "_set_sequence_number_for_group",
    "_get_sequence_number_for_group",
)


def install(agent: Agent, c10d: Any) -> None:
    """Substitute the process group, only while one is being made."""
    base = c10d.ProcessGroup
    kind = delegating_class(agent, base)
    substitute = _Substitute(base, kind)
    helper = c10d._new_process_group_helper

    @functools.wraps(helper)
    def new_process_group(*args: Any, **kwargs: Any) -> Any:
        is_default = not c10d.is_initialized()
        if is_default:
            stores.before_default_group(agent)
        c10d.ProcessGroup = substitute
        try:
            made = helper(*args, **kwargs)
        finally:
            c10d.ProcessGroup = base
        group = made[0] if isinstance(made, tuple) else made
        if isinstance(group, base) and not isinstance(group, kind) and type(group) is not base:
            wrap_class(agent, type(group), base)
        if is_default:
            stores.after_default_group(agent, kwargs["store"] if "store" in kwargs else args[4])
        return made

    c10d._new_process_group_helper = new_process_group
    agent.hooks.append("process group")


class _Substitute:
    """Stands for the class `ProcessGroup` while a group is made: called it makes one of ours, and it
    answers class questions as the real class does (a plug-in's group is still a ProcessGroup)."""

    def __init__(self, base: Any, kind: Any) -> None:
        self._base = base
        self._kind = kind

    def __call__(self, store: Any, rank: int, size: int) -> Any:
        return self._kind(store, rank, size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, self._base)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._base)


def delegating_class(agent: Agent, base: Any) -> Any:
    """The Python class whose groups delegate to a real one."""

    class ProcessGroup(base):  # type: ignore[misc]
        """A process group that passes every collective to an inner group."""

        def __init__(self, store: Any, rank: int, size: int, inner: Any = None) -> None:
            super().__init__(rank, size)
            self.inner = base(store, rank, size) if inner is None else inner
            self._name = "" if inner is None else inner.group_name
            self._desc = "" if inner is None else inner.group_desc

        def _register_backend(self, *args: Any) -> None:
            # Both need it: the inner one runs on it, the outer one is asked for it by C++.
            self.inner._register_backend(*args)
            base._register_backend(self, *args)

        def _set_default_backend(self, *args: Any) -> None:
            self.inner._set_default_backend(*args)
            base._set_default_backend(self, *args)

        def _set_group_name(self, name: str) -> None:
            self.inner._set_group_name(name)
            self._name = name

        def _set_group_desc(self, desc: str) -> None:
            self.inner._set_group_desc(desc)
            self._desc = desc

        # C++ asks for these names through the trampoline, Python through the properties.
        def getGroupName(self) -> str:
            return str(self._name)

        def setGroupName(self, name: str) -> None:
            self._set_group_name(name)

        def getGroupDesc(self) -> str:
            return str(self._desc)

        def setGroupDesc(self, desc: str) -> None:
            self._set_group_desc(desc)

        group_name = property(getGroupName)
        group_desc = property(getGroupDesc)

        @property
        def bound_device_id(self) -> Any:
            return self.inner.bound_device_id

        @bound_device_id.setter
        def bound_device_id(self, device: Any) -> None:
            self.inner.bound_device_id = device
            base.bound_device_id.__set__(self, device)

    for name, op in COLLECTIVES.items():
        if hasattr(base, name):
            setattr(ProcessGroup, name, _delegate(agent, name, op))
    for name in DELEGATED:
        if hasattr(base, name):
            setattr(ProcessGroup, name, _pass_on(name))
    return ProcessGroup


def _delegate(agent: Agent, name: str, op: str) -> Callable[..., Any]:
    def collective(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = getattr(self.inner, name)
        if not agent.hot_collective:
            return call(*args, **kwargs)
        return meet(agent, self, op, functools.partial(at_inner_seam, agent, call))(*args, **kwargs)

    collective.__name__ = name
    return collective


def _pass_on(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.inner, name)(*args, **kwargs)

    method.__name__ = name
    return method


def wrap_class(agent: Agent, kind: Any, base: Any) -> None:
    """Watch the collectives of a class of process groups written in Python, once."""
    if "_torch_chaos_watched" in kind.__dict__:
        return
    kind._torch_chaos_watched = True
    for name, op in COLLECTIVES.items():
        owner = next((one for one in kind.__mro__ if name in vars(one)), None)
        if owner is not None and owner.__module__ != base.__module__:
            setattr(kind, name, Watched(agent, vars(owner)[name], op))
    agent.hooks.append(kind.__module__ + "." + kind.__qualname__)


class Watched:
    """A method that is met when it is looked up, and is then called by its caller itself.

    So no frame of ours is between the user's code and the group: a runtime may look at its caller's frame
    to tell collectives apart, and would else see us instead of the user.
    """

    def __init__(self, agent: Agent, method: Callable[..., Any], op: str) -> None:
        self._agent = agent
        self._method = method
        self._op = op
        self.__doc__ = method.__doc__

    def __get__(self, group: Any, kind: Any = None) -> Any:
        method = self._method.__get__(group, kind)
        if group is None or not self._agent.hot_collective:
            return method
        if sys._getframe(1).f_globals is self._method.__globals__:
            # The group builds one collective from others; those are not the user's.
            return method
        return meet(self._agent, group, self._op, method)


def meet(agent: Agent, group: Any, op: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Meet what waits at a collective that is about to be issued; returns what to call."""
    if not agent.awake and not agent.wake():
        return call
    if agent.inner is not None:
        agent.report("failed", agent.inner, "the runtime called no backend for this collective", proven=False)
        agent.inner = None
    phase = "bucket" if agent.phase == "backward" and op == "all_reduce" else agent.phase
    if phase == "bucket":
        agent.visit(Point("phase", agent.step, phase))
    groups = tuple(name for name in (group.group_name, group.group_desc) if name)
    armed = agent.visit(Point("collective", agent.step, phase, op=op, groups=groups))
    return call if armed is None else act_collective.deviate(agent, armed, op, call)


def at_inner_seam(agent: Agent, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Issue a collective below the runtime, with the fault that the outer seam handed down."""
    armed, agent.inner = agent.inner, None
    if armed is None:
        return call(*args, **kwargs)
    return act_collective.perform_inner(agent, armed, call, args, kwargs)


class BackendProxy:
    """Stands before a backend of our own runtime: the inner seam, below everything the runtime does."""

    def __init__(self, agent: Agent, backend: Any) -> None:
        self._agent = agent
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if name in COLLECTIVES:
            return functools.partial(at_inner_seam, self._agent, found)
        return found
