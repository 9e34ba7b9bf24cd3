"""A healthy trainer and the mistakes that people make with it: each `--bug` must be found, `none` must pass.

    python -m recovery.launch --nproc-per-node 4 suites/workloads/seeded_bugs.py --bug forgotten_scheduler

The suite `controls` runs every one of them and names the invariant that has to catch it.
"""

import argparse
import copy
import itertools
import os
import subprocess
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import recovery

BATCH = 8
BUGS = {
    "none": "no bug",
    "swallowed_error": "no bug: errors of a metric's collective are caught, and the runtime must not mind",
    "long_phase": "no bug: a declared phase (`run.busy`) that is longer than any limit for a hang",
    "background_process": "no bug: a process is started in the background; the runtime ends it with the job",
    "forgotten_scheduler": "the scheduler is not protected: a replacement starts the warm-up anew",
    "forgotten_average": "the teacher, an average of the weights, is not protected",
    "own_iterator": "samples come from a bare next(): what a discarded step took is never seen again",
    "own_generator": "noise comes from an unprotected generator: a replayed step draws other numbers",
    "process_in_seed": "the random stream starts from the process id",
    "clock_in_batch": "the batch depends on the time of day",
    "decay_outside_step": "weights are changed outside run.step, where nothing is rolled back",
    "fewer_steps": "the job ends, with success, before the last step",
    "left_file": "a temporary file stays behind",
    "leaked_descriptor": "each step opens a file and never closes it",
    "failed_by_itself": "one rank raises where no fault was injected",
    "slow_rebuild": "a replacement takes 0.8 s to build its model",
    "stuck_after_recovery": "the job never makes another step once a rank was replaced",
}


def build(bug: str) -> nn.Module:
    """Inputs float32 [batch, 16] in, predictions [batch, 1] out."""
    if bug == "slow_rebuild":
        time.sleep(0.8)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))


def batch(ids: list[int], salt: int) -> tuple[Tensor, Tensor]:
    inputs = [torch.randn(16, generator=torch.Generator().manual_seed(i + salt)) for i in ids]
    x = torch.stack(inputs)
    return x, torch.sin(x[:, :3].sum(1, keepdim=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--bug", choices=BUGS, default="none")
    args = parser.parse_args()
    bug: str = args.bug
    run = recovery.join()

    torch.manual_seed(run.seed)
    model = build(bug)
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30))
    protected = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "teacher": teacher}
    for name, forgotten in (("scheduler", "forgotten_scheduler"), ("teacher", "forgotten_average")):
        if bug == forgotten:
            del protected[name]
    run.protect(**protected)
    ddp = run.data_parallel(model)

    stream = itertools.count(run.rank, run.world_size)
    generator = torch.Generator().manual_seed(run.seed + run.rank)
    opened = []

    def sample_ids(index: int) -> list[int]:
        if bug == "own_iterator":
            return [next(stream) for _ in range(BATCH)]
        first = (index * run.world_size + run.rank) * BATCH
        return list(range(first, first + BATCH))

    def train_step(index: int) -> float:
        if bug == "process_in_seed":
            torch.manual_seed(os.getpid())
        if bug == "leaked_descriptor":
            opened.append(Path(os.devnull).open())  # noqa: SIM115  # the leak is the point
        if bug == "failed_by_itself" and (index, run.rank, run.generation) == (8, 1, 1):
            raise RuntimeError("out of luck")
        ids = sample_ids(index)
        inputs, targets = batch(ids, time.time_ns() if bug == "clock_in_batch" else run.seed)
        if bug == "own_generator":
            inputs = inputs + 0.1 * torch.randn(inputs.shape, generator=generator)
        predicted = ddp(inputs)
        loss = F.mse_loss(predicted, targets) + 0.1 * F.mse_loss(predicted, teacher(inputs))
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for old, new in zip(teacher.parameters(), model.parameters(), strict=True):
                old.lerp_(new, 0.1)
        if bug == "swallowed_error":
            try:
                dist.all_reduce(loss.detach().clone())
            except Exception as error:
                print(f"metric lost: {error}", flush=True)
        run.note(samples=ids)
        return loss.item()

    if bug == "left_file":
        tempfile.mkstemp(prefix="forgotten-")
    if bug == "background_process" and run.rank == 0:
        subprocess.Popen(["sleep", "60"], start_new_session=True)

    for index in run.steps(args.steps - 5 if bug == "fewer_steps" else args.steps):
        if bug == "decay_outside_step":
            with torch.no_grad():
                torch._foreach_mul_(list(model.parameters()), 0.999)
        if bug == "long_phase" and index == args.steps // 2:
            with run.busy("evaluation", limit=30):
                time.sleep(2.5)
        if bug == "stuck_after_recovery" and run.generation > 1:
            with run.busy("warm-up", limit=300):
                time.sleep(300)
        run.step(train_step, index)


if __name__ == "__main__":
    main()
