"""A small convolutional network on scikit-learn's handwritten digits, with an average of its weights.

    python -m recovery.launch --nproc-per-node 4 suites/workloads/digits_cnn.py --steps 60

What it adds to `tiny_gpt`: BatchNorm (its buffers change in forward and differ on every rank), an average
that is no part of the model, and a metric that is reduced *after* the optimizer's step.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import recovery

BATCH, TRAINED_ON = 16, 1500


def build_model() -> nn.Module:
    """Images float32 [batch, 1, 8, 8] in, logits [batch, 10] out."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * 4 * 4, 10),
    )


def read_digits() -> tuple[Tensor, Tensor]:
    """All 1797 images, float32 [n, 1, 8, 8] in 0..1, and their labels, int64 [n].

    The file is read without importing scikit-learn: the import takes longer than the training.
    """
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise SystemExit("digits_cnn needs scikit-learn\n  mend: pip install 'torch-chaos[digits]'")
    rows = np.loadtxt(
        Path(found.origin).parent / "datasets/data/digits.csv.gz", delimiter=",", dtype=np.float32
    )
    table = torch.from_numpy(rows)
    return (table[:, :64] / 16).reshape(-1, 1, 8, 8), table[:, 64].long()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    run = recovery.join()
    images, labels = read_digits()
    torch.manual_seed(run.seed)
    model = build_model()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    run.protect(model=model, optimizer=optimizer, ema=average)
    ddp = run.data_parallel(model)

    def sample_ids(index: int) -> list[int]:
        """Samples are numbered through all epochs, so that an id occurs once in a run."""
        first = (index * run.world_size + run.rank) * BATCH
        return list(range(first, first + BATCH))

    def pick(ids: list[int]) -> list[int]:
        # 7919 is prime to 1500: each epoch visits every image once, in an order that mixes the writers.
        return [(i * 7919 + run.seed) % TRAINED_ON for i in ids]

    def train_step(index: int) -> float:
        ids = sample_ids(index)
        chosen = pick(ids)
        logits = ddp(images[chosen])
        loss = F.cross_entropy(logits, labels[chosen])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        hits = (logits.argmax(1) == labels[chosen]).sum().float()
        dist.all_reduce(hits)
        run.note(samples=ids, accuracy=hits.item() / (BATCH * run.world_size))
        return loss.item()

    for index in run.steps(args.steps):
        loss = run.step(train_step, index)
        if run.rank == 0:
            print(f"step {index} loss {loss:.4f}", flush=True)

    with run.busy("evaluation", limit=60), torch.no_grad():
        average.eval()
        correct = (average(images[TRAINED_ON:]).argmax(1) == labels[TRAINED_ON:]).float().mean().item()
    if run.rank == 0:
        print(f"accuracy {correct:.3f}", flush=True)


if __name__ == "__main__":
    main()
