"""A plain DDP script that times its own steps: the target of `agent_overhead.py`."""

import argparse
import json
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    """Bytes [batch, time] in, logits out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(256, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def forward(self, text: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.token(text)))
        return logits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(Model(args.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    text = torch.randint(0, 256, (args.batch, 33))
    for step in range(args.steps):
        if step == args.warm:
            dist.barrier()
            start = time.perf_counter(), time.process_time()
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    timed = args.steps - args.warm
    figures = [
        (time.perf_counter() - start[0]) / timed * 1000,
        (time.process_time() - start[1]) / timed * 1000,
    ]
    (args.out / f"rank{dist.get_rank()}.json").write_text(json.dumps(figures), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
