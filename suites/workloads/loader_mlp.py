"""A small classifier whose batches come from a torch DataLoader with worker processes.

    python -m recovery.launch --nproc-per-node 4 suites/workloads/loader_mlp.py --steps 60

What it adds to the others: children that the runtime did not make, and an input that is read ahead. A step
that is replayed needs the batch that was consumed already, so the loader starts again at the step asked for.
"""

import argparse
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import recovery

BATCH, FEATURES, CLASSES = 16, 32, 10


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """One item a step: inputs float32 [BATCH, FEATURES], labels int64 [BATCH]; functions of their place."""

    def __init__(self, seed: int, rank: int) -> None:
        self.seed, self.rank = seed, rank

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step * 1009 + self.rank)
        x = torch.randn(BATCH, FEATURES, generator=generator)
        return x, x[:, :CLASSES].argmax(1)


class Feed:
    """Batches by step index, read ahead by a loader for as long as steps follow each other."""

    def __init__(self, batches: Batches, steps: int, workers: int) -> None:
        self.batches, self.steps, self.workers = batches, steps, workers
        self.position = -1
        self.batches_ahead: Iterator[tuple[Tensor, Tensor]] = iter(())

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        if step != self.position:
            loader = DataLoader(
                self.batches,
                batch_size=None,
                sampler=range(step, self.steps),
                num_workers=self.workers,
                # Without a generator of its own a loader draws from the global stream when it is made: a step
                # that makes one anew would have other dropout masks than the same step without a fault.
                generator=torch.Generator().manual_seed(self.batches.seed),
            )
            self.batches_ahead = iter(loader)
        # Unknown until the batch is here: a loader that failed is made anew.
        self.position = -1
        batch = next(self.batches_ahead)
        self.position = step + 1
        return batch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2, help="loader processes of each rank")
    args = parser.parse_args()
    run = recovery.join()
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.Tanh(), nn.Dropout(0.1), nn.Linear(64, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)
    feed = Feed(Batches(run.seed, run.rank), args.steps, args.workers)

    def train_step(index: int) -> float:
        x, y = feed.at(index)
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        first = (index * run.world_size + run.rank) * BATCH
        run.note(samples=list(range(first, first + BATCH)))
        return loss.item()

    for index in run.steps(args.steps):
        loss = run.step(train_step, index)
        if run.rank == 0:
            print(f"step {index} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
