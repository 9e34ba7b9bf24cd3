"""A small network whose rank 0 also saves a checkpoint to disk every fifth step, as real jobs do.

    python -m recovery.launch --nproc-per-node 4 suites/workloads/saving.py --checkpoints DIR --steps 30

Recovery does not need the files, so a disk that fails costs a checkpoint and no step. The save is declared
as a phase: a slow disk is no hang.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import recovery


def save(folder: Path, step: int, model: nn.Module) -> None:
    """Write beside, then rename: a reader sees a whole checkpoint or none."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"partial-{step:06d}"
    try:
        torch.save({"step": step, "model": model.state_dict()}, partial)
        os.replace(partial, folder / f"step-{step:06d}.pt")
    except (OSError, RuntimeError) as error:
        print(f"step {step}: no checkpoint: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--checkpoints", type=Path, required=True)
    args = parser.parse_args()
    run = recovery.join()
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)

    def train_step(index: int) -> float:
        ids = range((index * run.world_size + run.rank) * 32, (index * run.world_size + run.rank + 1) * 32)
        generator = torch.Generator().manual_seed(run.seed * 1_000_003 + ids.start)
        x = torch.randn(32, 32, generator=generator)
        loss = F.mse_loss(ddp(x), torch.sin(x[:, :4].sum(1, keepdim=True)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        run.note(samples=list(ids))
        return loss.item()

    for index in run.steps(args.steps):
        loss = run.step(train_step, index)
        if run.rank == 0:
            print(f"step {index} loss {loss:.4f}", flush=True)
            if (index + 1) % 5 == 0:
                with run.busy("checkpoint", limit=30.0):
                    save(args.checkpoints, index, model)


if __name__ == "__main__":
    main()
