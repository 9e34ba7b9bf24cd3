"""Trainers to capture and move, and a transfer without a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from recovery.state import Digest, StateTree, stripes


@dataclass
class Trainer:
    """Protected objects and one training step over them."""

    tree: StateTree
    parts: dict[str, object]
    step: Callable[[int], None]


def tree_of(**parts: object) -> StateTree:
    """Protect `parts` in the order given."""
    tree = StateTree()
    for name, obj in parts.items():
        tree.add(name, obj)
    return tree


def move(holder: StateTree, receiver: StateTree, holders: int = 3) -> Digest:
    """Carry the holder's state over as a transfer would: the manifest as JSON, the bytes by stripes."""
    manifest = json.loads(json.dumps(holder.manifest()))
    receiver.prepare(manifest)
    for stripe in stripes(manifest, holders):
        for chunk in stripe:
            receiver.write(chunk, holder.read(chunk).clone())
    return receiver.adopt(manifest)


def full_trainer(seed: int) -> Trainer:
    """A CNN with BatchNorm and dropout, AdamW in two groups, warm-up, gradient scaler and EMA."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.1), nn.Flatten(), nn.Linear(4 * 36, 10)
    )
    decayed = [param for param in model.parameters() if param.dim() > 1]
    plain = [param for param in model.parameters() if param.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed}, {"params": plain, "weight_decay": 0.0}], lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda index: min(1.0, (index + 1) / 5))
    scaler = torch.amp.GradScaler("cpu", growth_interval=2)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "scaler": scaler, "ema": ema}

    def step(index: int) -> None:
        torch.manual_seed(index)
        scaler.scale(model(torch.randn(8, 1, 8, 8)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        ema.update_parameters(model)
        optimizer.zero_grad()

    return Trainer(tree_of(**parts), parts, step)
