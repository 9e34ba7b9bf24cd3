"""Sums without gradients: each rank adds its number and prints what it gets. argv: the operations."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist


def say(text: str) -> None:
    """One write a line: the ranks share their output, and print() may write its newline apart."""
    os.write(1, f"{text}\n".encode())


dist.init_process_group("gloo", timeout=timedelta(seconds=3))
rank, world = dist.get_rank(), dist.get_world_size()
for index, name in enumerate(sys.argv[1:]):
    try:
        if name == "all_reduce":
            value = torch.full((4,), float(rank + 1))
            dist.all_reduce(value)
        elif name == "all_gather":
            value = torch.empty(world * 2)
            dist.all_gather_into_tensor(value, torch.full((2,), float(rank)))
        elif name == "broadcast":
            value = torch.full((2,), float(rank + 7))
            dist.broadcast(value, 0)
        else:
            dist.barrier()
            value = torch.zeros(1)
        say(f"rank {rank} {index} {name} {value.tolist()}")
    except RuntimeError as error:
        say(f"rank {rank} {index} {name} raised {str(error)[:90]}")
        break
