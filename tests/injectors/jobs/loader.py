"""Training from a DataLoader, without communication. argv: steps, loader workers, kind of batch."""

import os
import sys
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Sample(NamedTuple):
    image: torch.Tensor
    label: int


class Samples(Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int):
        image, label = torch.full((4,), float(index % 7)), index % 3
        kind = sys.argv[3] if len(sys.argv) > 3 else "pair"
        if kind == "dict":
            return {"x": image, "meta": {"y": label, "name": str(index)}}
        if kind == "image":
            return image
        if kind == "text":
            return str(index)
        return Sample(image, label)


def parts(batch):
    if isinstance(batch, dict):
        return batch["x"], batch["meta"]["y"]
    if isinstance(batch, torch.Tensor):
        return batch, torch.zeros(len(batch), dtype=torch.int64)
    if isinstance(batch, list) and isinstance(batch[0], str):
        return torch.ones(len(batch), 4), torch.zeros(len(batch), dtype=torch.int64)
    return batch.image, batch.label


torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
rank, step, steps = os.environ["RANK"], 0, int(sys.argv[1])
try:
    for batch in DataLoader(Samples(), batch_size=2, num_workers=int(sys.argv[2])):
        x, y = parts(batch)
        print(f"rank {rank} step {step} batch {len(x)} {x.max().item() if len(x) else None}", flush=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step == steps:
            break
except Exception as error:
    print(f"rank {rank} came out of step {step}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1)
