"""The same on an accelerator."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recovery.state import StateTree
from tests.recovery.state.support import move, tree_of


def _trainer(seed: int) -> tuple[StateTree, nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(300, 200), nn.BatchNorm1d(200), nn.Linear(200, 3)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    scaler = torch.amp.GradScaler("cuda")
    return tree_of(model=model, optimizer=optimizer, scaler=scaler), model, optimizer


@pytest.mark.gpu
def test_state_on_an_accelerator_rolls_back_and_moves() -> None:
    (holder, model, optimizer), (receiver, other, _) = _trainer(0), _trainer(1)
    for _ in range(3):
        holder.capture()
        before = holder.digest()
        model(torch.randn(8, 300, device="cuda")).sum().backward()
        optimizer.step()
        holder.rollback()
        assert holder.digest() == before
        model(torch.randn(8, 300, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert move(holder, receiver) == holder.digest()
    assert all(tensor.device.type == "cuda" for tensor in other.state_dict().values())
