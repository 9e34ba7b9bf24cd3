"""Steps and phases of a training script that was not changed.

What counts as a step: the first optimizer that steps is the primary one, and each of its steps ends a
step of training. That is right for plain loops, for gradient accumulation (many backwards, one step) and
for two optimizers (the second one's update belongs to the step that is under way). An iteration whose
update an AMP scaler left out is a step too, marked skipped. `step_rule` overrides the choice.

The number of the first step of a process is taken from the optimizer's own `step` (Adam keeps one; it
is there after a checkpoint was loaded), else it is 0; the event `step.rule` says which.
"""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from types import FrameType
from typing import TYPE_CHECKING, Any

from . import digest
from .core import Agent

if TYPE_CHECKING:
    from collections.abc import Callable


def install(agent: Agent, torch: Any) -> None:
    """Hook optimizers, the AMP scaler, backward and the first forward of an iteration."""
    steps = Steps(agent, torch)
    optimizer = importlib.import_module("torch.optim.optimizer")
    optimizer.register_optimizer_step_pre_hook(steps.before_optimizer)
    optimizer.register_optimizer_step_post_hook(steps.after_optimizer)
    _wrap(optimizer.Optimizer, "load_state_dict", steps.around_load)
    agent.hooks.append("optimizer")
    _wrap(torch.autograd, "backward", steps.around_backward)
    agent.hooks.append("backward")
    scaler = getattr(getattr(torch.amp, "grad_scaler", None), "GradScaler", None)
    if scaler is not None:
        _wrap(scaler, "step", steps.around_scaler)
        agent.hooks.append("scaler")
    agent.await_forward = steps.await_forward
    steps.await_forward()
    agent.hooks.append("forward")


class Steps:
    """Counts steps and names phases; one of a kind, it lives through forks as its agent does."""

    def __init__(self, agent: Agent, torch: Any) -> None:
        self.agent = agent
        self.torch = torch
        self._forward_hook: Any = None
        self._current: Any = None
        self._frame: FrameType | None = None
        self._restored: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._scaled: Any = None

    # -- forward and backward -------------------------------------------------------------------------

    def await_forward(self) -> None:
        """Watch for the next module call. The hook takes itself off, so modules pay for one call only."""
        if self._forward_hook is None:
            register = self.torch.nn.modules.module.register_module_forward_pre_hook
            self._forward_hook = register(self._on_forward)

    def _on_forward(self, module: Any, args: Any) -> None:
        agent = self.agent
        if not self.torch.is_grad_enabled() or (not agent.awake and not agent.wake()):
            return
        if not self._is_training_module(module):
            return
        hook, self._forward_hook = self._forward_hook, None
        if hook is not None:
            hook.remove()
        agent.enter("forward")

    def _is_training_module(self, module: Any) -> bool:
        """Transforms and losses are modules too: once a wrapper for training is known, only it counts."""
        known = self.agent.module
        wrapped = _is_distributed(module)
        if known is None or (wrapped and not _is_distributed(known)):
            self.agent.module = module
            return True
        return wrapped or not _is_distributed(known)

    def around_backward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """`torch.autograd.backward`, which `Tensor.backward` calls too."""
        agent = self.agent
        if not agent.awake and not agent.wake():
            return original(*args, **kwargs)
        if agent.config.get("observe"):
            digest.note_loss(agent, args[0] if args else kwargs.get("tensors"))
        # Checkpointed segments run a backward within the backward; the phase stays the same then.
        agent.enter("backward")
        try:
            return original(*args, **kwargs)
        finally:
            self.await_forward()

    # -- optimizers -----------------------------------------------------------------------------------

    def before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A pre-hook of every optimizer."""
        agent = self.agent
        if not agent.awake and not agent.wake():
            return
        if self._is_nested(optimizer):
            return
        self._current, self._frame = optimizer, sys._getframe(1)
        self._meet(optimizer)
        agent.enter("optimizer")

    def after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """A post-hook of every optimizer."""
        if self._current is not optimizer:
            return
        self._current = self._frame = None
        self._end_of(optimizer, skipped=False)

    def around_scaler(
        self, original: Callable[..., Any], scaler: Any, optimizer: Any, *a: Any, **k: Any
    ) -> Any:
        """`GradScaler.step`: where it leaves the update out, the iteration is a step all the same."""
        agent = self.agent
        if not agent.awake and not agent.wake():
            return original(scaler, optimizer, *a, **k)
        self._scaled = None
        result = original(scaler, optimizer, *a, **k)
        if self._scaled is None:
            self._meet(optimizer)
            agent.enter("optimizer")
            self._end_of(optimizer, skipped=True)
        return result

    def around_load(self, original: Callable[..., Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`Optimizer.load_state_dict`: a checkpoint says at which step it was taken."""
        result = original(optimizer, *args, **kwargs)
        found = step_of(optimizer)
        if found is not None:
            self._restored[optimizer] = found
            agent = self.agent
            if not agent.from_runtime and not agent.optimizers and (agent.awake or agent.wake()):
                # Known before the first forward of the process, so that its phases have the right step.
                agent.set_step(max(agent.step, found))
        return result

    def _is_nested(self, optimizer: Any) -> bool:
        """An optimizer that wraps another one steps once. One that raised does not count as running."""
        if self._current is None or self._current is optimizer:
            return False
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            if frame is self._frame:
                return True
            frame = frame.f_back
        return False

    def _meet(self, optimizer: Any) -> None:
        """Learn of an optimizer the first time it steps."""
        agent = self.agent
        if any(known is optimizer for known in agent.optimizers):
            return
        agent.add_optimizer(optimizer)
        if agent.from_runtime or not self._is_primary(optimizer):
            return
        found = self._restored.get(optimizer, step_of(optimizer))
        if found:
            agent.set_step(found)
        origin = "counted from 0: the optimizer has no count of earlier updates"
        if found:
            origin = f"numbered by the optimizer's own count of updates, {found}"
        rule = self._rule()
        agent.events.write(
            "step.rule",
            rank=agent.rank,
            rule=rule.get("rule", "optimizer"),
            optimizer=type(optimizer).__name__,
            step=agent.step,
            detail=f"the first step of this process is {origin}; skipped updates are not in it",
        )

    def _rule(self) -> dict[str, Any]:
        rule = self.agent.config.get("step_rule")
        return dict(rule) if rule else {"rule": "optimizer"}

    def _is_primary(self, optimizer: Any) -> bool:
        index = int(self._rule().get("index") or 0)
        known = self.agent.optimizers
        return index < len(known) and known[index] is optimizer

    def _end_of(self, optimizer: Any, skipped: bool) -> None:
        agent = self.agent
        self._scaled = optimizer
        self.await_forward()
        if agent.from_runtime:
            agent.phase = "idle"
            return
        rule = self._rule()
        if rule.get("rule") == "stdout":
            agent.link.drain()
        elif self._is_primary(optimizer) and self._is_full(rule):
            if agent.config.get("observe"):
                digest.write_commit(agent, skipped)
            agent.set_step(agent.step + 1)
        agent.enter("data")

    def _is_full(self, rule: dict[str, Any]) -> bool:
        """Whether this primary step ends a step of training (rule every_n: only each n-th does)."""
        if rule.get("rule") != "every_n":
            return True
        self.agent.part += 1
        if self.agent.part < int(rule["n"]):
            return False
        self.agent.part = 0
        return True


def step_of(optimizer: Any) -> int | None:
    """The number of updates that an optimizer says it has made; None if it keeps none."""
    for state in optimizer.state.values():
        value = state.get("step") if isinstance(state, dict) else None
        if value is not None:
            return int(value)
    return None


def _is_distributed(module: Any) -> bool:
    name = type(module).__name__
    return name == "DistributedDataParallel" or name.startswith(("FSDP", "FullySharded"))


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(owner, name, wrapper)
