"""A network that trains on a GPU where there is one, and on the CPU where there is none.

    python -m recovery.launch --nproc-per-node 2 suites/workloads/on_device.py --steps 60

Ranks share the devices in turn. NCCL takes a device for one rank only, so with fewer devices than ranks gloo
carries the gradients.
"""

import argparse
import time

import torch
from torch import Tensor, nn

import recovery

WIDTH, BATCH = 256, 64


def place_of(rank: int) -> torch.device:
    """The device of a rank."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    parser.add_argument("--devices", type=int, default=2, help="NCCL from this many devices on")
    args = parser.parse_args()
    run = recovery.join(backend="nccl" if torch.cuda.device_count() >= args.devices else "gloo")
    device = place_of(run.rank)
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run.protect(model=model, optimizer=optimizer)
    ddp = run.data_parallel(model)

    def batch(index: int) -> Tensor:
        # Drawn on the CPU: the same numbers on every device.
        generator = torch.Generator().manual_seed((run.seed * 1_000_003 + index) * 64 + run.rank)
        return torch.randn(BATCH, WIDTH, generator=generator).to(device)

    def train_step(index: int) -> float:
        values = batch(index)
        loss = (ddp(values) - values.roll(1, dims=1)).square().mean()
        loss.backward()
        optimizer.step()
        run.note(samples=[index * run.world_size + run.rank])
        return float(loss.item())

    for index in run.steps(args.steps):
        loss = run.step(train_step, index)
        time.sleep(args.pause)
        if run.rank == 0:
            print(f"step {index} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
