"""A small job that gets into one kind of trouble, once, at a given rank and step.

Side effects that must happen once in a job's life are remembered in a file of the given folder, since the
process that had them may be gone.
"""

import argparse
import ctypes
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import recovery

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="none")
parser.add_argument("--rank", type=int, default=2)
parser.add_argument("--at", type=int, default=6)
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--folder", type=Path, default=Path("."))
parser.add_argument("--always", action="store_true")
args = parser.parse_args()

if args.kind == "import_error":
    raise ImportError("no module named nonsense")
run = recovery.join()
torch.manual_seed(run.seed)
model = torch.nn.Sequential(
    torch.nn.Linear(32, 64),
    torch.nn.BatchNorm1d(64),
    torch.nn.ReLU(),
    torch.nn.Dropout(0.1),
    torch.nn.Linear(64, 8),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
average = torch.optim.swa_utils.AveragedModel(
    model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
)


class Metric:
    """The kind of counter that people keep beside a model."""

    def __init__(self) -> None:
        self.total = 0.0

    def state_dict(self) -> dict[str, float]:
        return {"total": self.total}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.total = state["total"]


metric = Metric()
run.protect(model=model, optimizer=optimizer, average=average, metric=metric)
if args.kind == "rank_local":
    private = Metric()
    run.protect(private=private)
if args.kind == "generator":
    run.protect(generator=torch.Generator())
ddp = run.data_parallel(model)


def strikes(index: int) -> bool:
    if run.rank != args.rank or index != args.at:
        return False
    mark = args.folder / "struck"
    if mark.exists() and not args.always:
        return False
    mark.touch()
    return True


def step(index: int) -> float:
    loss = ddp(torch.randn(16, 32)).square().mean()
    if args.kind == "hang" and strikes(index):
        time.sleep(1000)
    if args.kind == "gil" and strikes(index):
        ctypes.PyDLL(None).usleep(800_000)
    if args.kind == "straggler" and strikes(index):
        time.sleep(0.2)
    if args.kind == "exception" and strikes(index):
        raise ValueError("bad batch")
    if args.kind == "skip" and strikes(index):
        with ddp.no_sync():
            loss = ddp(torch.randn(16, 32)).square().mean()
            loss.backward()
    else:
        loss.backward()
    if args.kind == "extra" and strikes(index):
        dist.all_reduce(torch.ones(1))
    if args.kind == "accumulate":
        return loss.item()
    optimizer.step()
    average.update_parameters(model)
    optimizer.zero_grad()
    if args.kind == "swallow":
        try:
            value = loss.detach().clone()
            dist.all_reduce(value)
        except Exception:
            value = torch.zeros(())
    else:
        value = loss.detach().clone()
        if args.kind == "die_before_metric" and strikes(index):
            os.kill(os.getpid(), 9)
        dist.all_reduce(value)
    metric.total += value.item() / run.world_size
    if args.kind == "rank_local":
        private.total += loss.item()
    if args.kind == "busy" and strikes(index):
        with run.busy("eval", limit=20):
            time.sleep(2.0)
    if args.kind == "busy_too_long" and strikes(index):
        with run.busy("eval", limit=0.5):
            time.sleep(1000)
    return value.item()


for index in run.steps(args.steps):
    if args.kind == "forget":
        continue
    result = run.step(step, index)
    if run.rank == 0:
        print(f"step {index} {result:.6f}", flush=True)
if args.kind == "late_error":
    sys.exit("the model could not be saved")
