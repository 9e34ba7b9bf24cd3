"""A plain DDP script with disk checkpoints, as one finds it in any repository.

    torchrun --nproc-per-node 4 --max-restarts 3 train_ddp.py --checkpoints DIR --steps 40

It knows nothing of this project. A lost rank makes `torchrun` restart all of them, and the script resumes
from its newest checkpoint. What a step computes depends on (seed, rank, step) alone, so a correct resume is
exact to the last bit.
"""

import argparse
import datetime
import hashlib
import io
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--careful", action="store_true", help="check sums, and do without a failed save")
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=0, help="loader processes of each rank")
    parser.add_argument("--timeout", type=float, default=30.0, help="of a collective, in seconds")
    return parser.parse_args()


class Batches(Dataset[tuple[Tensor, Tensor]]):
    """One item a step: inputs float32 [16, 32] and targets float32 [16, 1] of a function worth learning."""

    def __init__(self, seed: int, rank: int) -> None:
        self.seed, self.rank = seed, rank

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step * 1009 + self.rank)
        x = torch.randn(16, 32, generator=generator)
        return x, torch.sin(x[:, :4].sum(1, keepdim=True)) + 0.5 * x[:, 4:5]


def newest(folder: Path, careful: bool) -> Path | None:
    found = sorted(folder.glob("step-*.pt"), reverse=True)
    return next((path for path in found if not careful or is_sound(path)), None)


def is_sound(path: Path) -> bool:
    total = path.with_suffix(".sha256")
    return total.is_file() and total.read_text() == hashlib.sha256(path.read_bytes()).hexdigest()


def save(folder: Path, step: int, state: dict[str, object]) -> None:
    """Write beside, then rename: a reader sees a whole checkpoint or none."""
    partial = folder / f"partial-{step:06d}"
    torch.save(state, partial)
    os.replace(partial, folder / f"step-{step:06d}.pt")


def save_carefully(folder: Path, step: int, state: dict[str, object]) -> None:
    """The sum is that of the bytes in memory, so it tells what the disk made of them."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    partial, final = folder / f"partial-{step:06d}", folder / f"step-{step:06d}.pt"
    try:
        partial.write_bytes(buffer.getbuffer())
        final.with_suffix(".sha256").write_text(hashlib.sha256(buffer.getbuffer()).hexdigest())
        os.replace(partial, final)
    except OSError as error:
        print(f"step {step}: no checkpoint: {error}", flush=True)


def main() -> None:
    args = parse()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=args.timeout))
    rank = dist.get_rank()
    args.checkpoints.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(32, args.width), nn.Tanh(), nn.Dropout(0.05), nn.Linear(args.width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.8)

    first = 0
    checkpoint = newest(args.checkpoints, args.careful)
    if checkpoint is not None:
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        first = saved["step"] + 1
    # Otherwise DDP lays its buckets out anew after the first step of every start: the order in which
    # gradients add up, and so the last bits of every weight, would depend on where the last restart was.
    ddp = DistributedDataParallel(model, find_unused_parameters=True)

    order = range(first, args.steps)
    loader = DataLoader(Batches(args.seed, rank), batch_size=None, sampler=order, num_workers=args.workers)
    for step, (inputs, targets) in zip(order, loader, strict=True):
        torch.manual_seed(args.seed * 7919 + step * 31 + rank)
        loss = F.mse_loss(ddp(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step} loss {loss.item():.6f}", flush=True)
            if (step + 1) % args.every == 0:
                state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                keep = save_carefully if args.careful else save
                keep(args.checkpoints, step, {**state, "scheduler": scheduler.state_dict()})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
