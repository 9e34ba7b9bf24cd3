"""A small model trained on the GPU under `recovery`, written as a user writes it."""

import argparse
import os
import signal

import torch
import torch.nn.functional as F
from torch import nn

import recovery


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default=None)
    parser.add_argument(
        "--die-at", type=int, default=-1, help="rank 1 of the first generation kills itself here"
    )
    args = parser.parse_args()
    run = recovery.join(backend=args.backend)
    device = torch.device("cuda", 0)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)

    def train_step(index: int) -> float:
        generator = torch.Generator().manual_seed(index * run.world_size + run.rank)
        inputs = torch.randn(16, 64, generator=generator).to(device)
        loss = F.mse_loss(ddp(inputs), inputs[:, :1].sin())
        if (index, run.rank, run.generation) == (args.die_at, 1, 1):
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    for index in run.steps(args.steps):
        run.step(train_step, index)


if __name__ == "__main__":
    main()
