"""A DDP training script as a user writes it: it knows nothing of faults. argv: steps, pause in s."""

import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for index in range(int(sys.argv[1])):
    generator = torch.Generator().manual_seed(index * 1000 + rank)
    loss = ddp(torch.randn(4, 8, generator=generator)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"rank {rank} step {index}", flush=True)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
dist.destroy_process_group()
