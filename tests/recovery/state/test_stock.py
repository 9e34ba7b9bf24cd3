"""Torch's own modules, optimizers and schedulers: none refused, all exact."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler as schedulers

from recovery.state import StateTree
from tests.recovery.state.support import move, tree_of

MODULES: dict[str, Callable[[], nn.Module]] = {
    "adaptive softmax": lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10]),
    "bilinear": lambda: nn.Bilinear(2, 3, 4),
    "batch norms": lambda: nn.Sequential(
        nn.BatchNorm1d(2), nn.BatchNorm2d(2, momentum=None), nn.SyncBatchNorm(2)
    ),
    "convolutions": lambda: nn.Sequential(nn.Conv1d(1, 2, 3, padding="same"), nn.ConvTranspose3d(1, 2, 2)),
    "circular": lambda: nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
    "cosine": lambda: nn.CosineSimilarity(),
    "embeddings": lambda: nn.Sequential(nn.Embedding(4, 2, padding_idx=0), nn.EmbeddingBag(4, 2)),
    "fold": lambda: nn.Sequential(
        nn.Fold((4, 5), (2, 2)), nn.Unfold(2), nn.Unflatten(1, (2, 2)), nn.Flatten()
    ),
    "groups": lambda: nn.Sequential(
        nn.GroupNorm(1, 2), nn.InstanceNorm2d(2, track_running_stats=True), nn.RMSNorm(2)
    ),
    "gru": lambda: nn.GRU(2, 3, 2, bidirectional=True, dropout=0.1),
    "lstm": lambda: nn.LSTM(2, 3, proj_size=2),
    "rnn cells": lambda: nn.ModuleList([nn.RNNCell(2, 2), nn.LSTMCell(2, 2), nn.GRUCell(2, 2)]),
    "losses": lambda: nn.ModuleList(
        [
            nn.CrossEntropyLoss(torch.ones(3)),
            nn.BCEWithLogitsLoss(pos_weight=torch.ones(2)),
            nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance()),
            nn.CTCLoss(),
            nn.GaussianNLLLoss(),
        ]
    ),
    "activations": lambda: nn.Sequential(
        nn.PReLU(), nn.GELU("tanh"), nn.Hardtanh(), nn.RReLU(), nn.Softplus(), nn.GLU()
    ),
    "containers": lambda: nn.ModuleDict(
        {"a": nn.ParameterList([torch.ones(2), torch.ones(3)]), "b": nn.Identity()}
    ),
    "parameter dict": lambda: nn.ParameterDict({"x": torch.ones(2), "y": nn.Parameter(torch.ones(1), False)}),
    "pooling": lambda: nn.Sequential(
        nn.AdaptiveAvgPool2d((2, None)), nn.FractionalMaxPool2d(2, output_ratio=0.5), nn.LPPool2d(2, 2)
    ),
    "shuffles": lambda: nn.Sequential(
        nn.PixelShuffle(2), nn.ChannelShuffle(2), nn.Upsample(scale_factor=2), nn.ZeroPad2d(1)
    ),
    "dropouts": lambda: nn.Sequential(nn.Dropout(), nn.AlphaDropout(), nn.Dropout2d(inplace=True)),
    "transformer": lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
    "attention": lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=3, add_bias_kv=True),
    "lazy after use": lambda: _used(nn.LazyLinear(2), torch.ones(1, 3)),
    "parametrized": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 2, 3)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
    "old weight norm": lambda: nn.utils.weight_norm(nn.Linear(2, 2)),
    "old spectral norm": lambda: _used(nn.utils.spectral_norm(nn.Linear(2, 2)), torch.ones(1, 2)),
    "pruned": lambda: _used(nn.utils.prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5), torch.ones(1, 4)),
    "compiled": lambda: torch.compile(nn.Sequential(nn.Linear(2, 2))),
    "compiled inside": lambda: nn.Sequential(torch.compile(nn.Linear(2, 2)), nn.ReLU()),
    "channels last": lambda: nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last),
    "half": lambda: nn.Linear(2, 2).bfloat16(),
}


def _used(module: nn.Module, batch: Tensor) -> nn.Module:
    module(batch)
    return module


def _tree(seed: int, build: Callable[[], nn.Module]) -> StateTree:
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these are deprecated, and still in use
        return tree_of(model=build())


@pytest.mark.parametrize("build", MODULES.values(), ids=MODULES.keys())
def test_stock_modules_are_captured_and_moved(build: Callable[[], nn.Module]) -> None:
    holder, receiver = _tree(0, build), _tree(1, build)
    holder.capture()
    before = holder.digest()
    for tensor in holder.tensors():
        tensor.bitwise_xor_(1)
    holder.rollback()
    assert holder.digest() == before
    assert move(holder, receiver) == before


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "SGD": lambda params: torch.optim.SGD(params, 0.1),
    "SGD momentum": lambda params: torch.optim.SGD(params, 0.1, momentum=0.9, nesterov=True),
    "Adam": lambda params: torch.optim.Adam(params),
    "Adam amsgrad": lambda params: torch.optim.Adam(params, amsgrad=True),
    "Adam fused": lambda params: torch.optim.Adam(params, fused=True),
    "Adam tensor rate": lambda params: torch.optim.Adam(params, lr=torch.tensor(0.1), foreach=False),
    "AdamW": lambda params: torch.optim.AdamW(params),
    "Adamax": lambda params: torch.optim.Adamax(params),
    "Adadelta": lambda params: torch.optim.Adadelta(params),
    "Adafactor": lambda params: torch.optim.Adafactor(params),
    "Adagrad": lambda params: torch.optim.Adagrad(params),
    "ASGD": lambda params: torch.optim.ASGD(params),
    "LBFGS": lambda params: torch.optim.LBFGS(params, max_iter=3, history_size=2),
    "NAdam": lambda params: torch.optim.NAdam(params),
    "RAdam": lambda params: torch.optim.RAdam(params),
    "RMSprop": lambda params: torch.optim.RMSprop(params, momentum=0.9, centered=True),
    "Rprop": lambda params: torch.optim.Rprop(params),
}
if hasattr(torch.optim, "Muon"):
    OPTIMIZERS["Muon"] = lambda params: torch.optim.Muon([param for param in params if param.dim() == 2])


class Fit:
    """A small regression under one optimizer and one scheduler."""

    def __init__(self, seed: int, optimizer: Any, scheduler: Any = None) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.model[0].bias.requires_grad_(False)  # frozen, as in fine-tuning
        self.optimizer = optimizer(list(self.model.parameters()))
        parts: dict[str, object] = {"model": self.model, "optimizer": self.optimizer}
        self.scheduler = scheduler(self.optimizer) if scheduler else None
        if self.scheduler is not None:
            parts = {"scheduler": self.scheduler, **parts}
        self.tree = tree_of(**parts)

    def step(self, index: int) -> None:
        batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(index))

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            loss = (self.model(batch) - 1).square().mean()
            loss.backward()
            return loss

        loss = self.optimizer.step(closure)
        if isinstance(self.scheduler, schedulers.ReduceLROnPlateau):
            self.scheduler.step(float(loss.detach()))
        elif self.scheduler is not None:
            self.scheduler.step()
        self.optimizer.zero_grad()


def _check(build: Callable[[int], Fit]) -> None:
    holder, calm, receiver = build(0), build(0), build(1)
    for index in range(4):
        holder.tree.capture()
        before = holder.tree.digest()
        holder.step(50 + index)
        holder.tree.rollback()
        assert holder.tree.digest() == before
        holder.step(index)
        calm.step(index)
        assert holder.tree.digest() == calm.tree.digest()
        if index in (0, 2):
            move(holder.tree, receiver.tree)
            later = build(2)
            move(holder.tree, later.tree)
            for trainer in (later, receiver):
                trainer.step(index + 1)
    calm.tree.capture()
    move(holder.tree, receiver.tree)
    for trainer in (holder, receiver):
        trainer.step(9)
    assert holder.tree.digest() == receiver.tree.digest()


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_stock_optimizers_replay_and_move(optimizer: Any) -> None:
    _check(lambda seed: Fit(seed, optimizer))


def _sequence(optimizer: torch.optim.Optimizer) -> schedulers.LRScheduler:
    warm = schedulers.LinearLR(optimizer, 0.1, total_iters=2)
    return schedulers.SequentialLR(optimizer, [warm, schedulers.CosineAnnealingLR(optimizer, 5)], [2])


def _chain(optimizer: torch.optim.Optimizer) -> Any:
    parts = [schedulers.ConstantLR(optimizer, 0.5), schedulers.ExponentialLR(optimizer, 0.9)]
    return schedulers.ChainedScheduler(parts, optimizer)


class Curve:
    """A learning rate function with settings."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def __call__(self, index: int) -> float:
        return 1.0 + self.slope * index


SCHEDULERS: dict[str, Any] = {
    "LambdaLR": lambda opt: schedulers.LambdaLR(opt, lambda index: 1 / (1 + index)),
    "LambdaLR object": lambda opt: schedulers.LambdaLR(opt, Curve(0.5)),
    "MultiplicativeLR": lambda opt: schedulers.MultiplicativeLR(opt, lambda index: 0.9),
    "StepLR": lambda opt: schedulers.StepLR(opt, 2),
    "MultiStepLR": lambda opt: schedulers.MultiStepLR(opt, [1, 3]),
    "ConstantLR": lambda opt: schedulers.ConstantLR(opt),
    "LinearLR": lambda opt: schedulers.LinearLR(opt),
    "ExponentialLR": lambda opt: schedulers.ExponentialLR(opt, 0.9),
    "PolynomialLR": lambda opt: schedulers.PolynomialLR(opt),
    "CosineAnnealingLR": lambda opt: schedulers.CosineAnnealingLR(opt, 5),
    "CosineAnnealingWarmRestarts": lambda opt: schedulers.CosineAnnealingWarmRestarts(opt, 2, 2),
    "OneCycleLR": lambda opt: schedulers.OneCycleLR(opt, 0.2, total_steps=20),
    "CyclicLR": lambda opt: schedulers.CyclicLR(opt, 0.01, 0.2, 2),
    "CyclicLR custom": lambda opt: schedulers.CyclicLR(opt, 0.01, 0.2, 2, scale_fn=lambda x: 0.5),
    "CyclicLR range": lambda opt: schedulers.CyclicLR(opt, 0.01, 0.2, 2, mode="exp_range"),
    "ReduceLROnPlateau": lambda opt: schedulers.ReduceLROnPlateau(opt, patience=0, factor=0.5),
    "SequentialLR": _sequence,
    "ChainedScheduler": _chain,
    "SWALR": lambda opt: torch.optim.swa_utils.SWALR(opt, 0.05),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS.values(), ids=SCHEDULERS.keys())
@pytest.mark.filterwarnings("ignore:.*scheduler.*:UserWarning", "ignore:.*lr_scheduler.step.*:UserWarning")
def test_stock_schedulers_replay_and_move(scheduler: Any) -> None:
    _check(lambda seed: Fit(seed, OPTIMIZERS["SGD momentum"], scheduler))


@pytest.mark.parametrize("wrap", [nn.parallel.DataParallel, torch.compile], ids=["DataParallel", "compile"])
def test_wrappers_are_looked_through(wrap: Callable[[nn.Module], nn.Module]) -> None:
    model = nn.Linear(2, 2)
    assert tree_of(model=wrap(model)).digest() == tree_of(model=model).digest()
