"""A byte-level transformer trained on the sources of Python's own standard library.

    python -m recovery.launch --nproc-per-node 4 suites/workloads/tiny_gpt.py --steps 60

It has what real training has and recovery likes to forget: dropout, tied embeddings, two parameter groups,
a frozen layer, a warm-up schedule, gradient clipping, and accumulation over two micro-batches.
"""

import argparse
import contextlib
import hashlib
import sysconfig
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import recovery

WIDTH, HEADS, CONTEXT, MICRO_BATCH, ACCUMULATE = 64, 4, 32, 2, 2


class Block(nn.Module):
    """One pre-norm transformer layer; float32 [batch, time, WIDTH] in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.dropout(self.out(attended.transpose(1, 2).flatten(-2)))
        x = x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))
        return x


class TinyGPT(nn.Module):
    """Bytes [batch, time] in, the mean loss of predicting each next byte out."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.position.weight, std=0.02)
        self.position.requires_grad_(False)
        self.head.weight = self.token.weight

    def forward(self, text: Tensor) -> Tensor:
        x = self.token(text[:, :-1]) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), text[:, 1:].flatten())


def read_corpus() -> tuple[Tensor, dict[str, object]]:
    """Forty modules of the standard library: their bytes, and what goes into the run's record."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py"))[:40]
    text = b"".join(file.read_bytes() for file in files)
    names, digest = [file.name for file in files], hashlib.sha256(text).hexdigest()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8), {"files": names, "sha256": digest}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()
    run = recovery.join()
    corpus, source = read_corpus()
    windows = (len(corpus) - 1) // CONTEXT
    torch.manual_seed(run.seed)
    model = TinyGPT()
    trained = [p for p in model.parameters() if p.requires_grad]
    decayed, plain = [p for p in trained if p.dim() >= 2], [p for p in trained if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    run.protect(model=model, optimizer=optimizer, scheduler=scheduler)
    ddp = run.data_parallel(model)

    def batch(ids: range) -> Tensor:
        # A stride prime to the number of windows visits each of them once per epoch, far from the one before.
        places = [(i * 7919 + run.seed) % windows * CONTEXT for i in ids]
        return torch.stack([corpus[place : place + CONTEXT + 1] for place in places]).long()

    def train_step(index: int) -> float:
        total, samples = 0.0, list[int]()
        for micro in range(ACCUMULATE):
            # Samples are numbered through all epochs, so that an id occurs once in a run.
            first = ((index * ACCUMULATE + micro) * run.world_size + run.rank) * MICRO_BATCH
            ids = range(first, first + MICRO_BATCH)
            with contextlib.nullcontext() if micro == ACCUMULATE - 1 else ddp.no_sync():
                loss = ddp(batch(ids)) / ACCUMULATE
                loss.backward()
            total, samples = total + loss.item(), [*samples, *ids]
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        run.note(samples=samples)
        if index == 0:
            run.note(corpus=source)
        return total

    for index in run.steps(args.steps):
        loss = run.step(train_step, index)
        if run.rank == 0:
            print(f"step {index} loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
