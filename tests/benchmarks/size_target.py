"""A job whose state is as large as asked: the target of `recovery_by_size.py`."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

import recovery


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--megabytes", type=float, required=True, help="of parameters and both moments")
    args = parser.parse_args()
    run = recovery.join()
    layers = 8
    width = round(math.sqrt(args.megabytes * 1e6 / 12 / layers))
    torch.manual_seed(run.seed)
    model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)

    def train_step(index: int) -> float:
        generator = torch.Generator().manual_seed(index * run.world_size + run.rank)
        loss = F.mse_loss(ddp(torch.randn(4, width, generator=generator)), torch.zeros(4, width))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    for index in run.steps(args.steps):
        run.step(train_step, index)


if __name__ == "__main__":
    main()
