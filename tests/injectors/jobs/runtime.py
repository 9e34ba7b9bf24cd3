"""A training script for our own runtime. argv: steps."""

import sys

import torch

import recovery

run = recovery.join()
torch.manual_seed(run.seed)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
run.protect(model=model, optimizer=optimizer)
ddp = run.data_parallel(model)


def train_step(index: int) -> float:
    generator = torch.Generator().manual_seed(index * 1000 + run.rank)
    loss = ddp(torch.randn(4, 8, generator=generator)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss)


for index in run.steps(int(sys.argv[1])):
    loss = run.step(train_step, index)
    print(f"rank {run.rank} step {index} {loss:.6f}", flush=True)
