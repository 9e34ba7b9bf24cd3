"""What the step entry's copy of the state costs: `python tests/benchmarks/state_capture.py`.

One thread, CPU. The capture runs between real training steps, so its caches are as cold as in use. Shown are
medians: of a step, of the capture, and of what a walk over everything (digest) costs when it is asked for.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from recovery.state import StateTree


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """x: float32 [batch, time, width]."""
        h = self.first(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.second(x))


def build(width: int, depth: int) -> tuple[StateTree, Callable[[int], None]]:
    """A byte-level model with AdamW and a warm-up schedule, and its step."""
    torch.manual_seed(0)
    blocks = [Block(width) for _ in range(depth)]
    model = nn.Sequential(nn.Embedding(256, width), *blocks, nn.Linear(width, 256))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda index: min(1.0, (index + 1) / 100))
    tree = StateTree()
    tree.add("model", model)
    tree.add("optimizer", optimizer)
    tree.add("scheduler", scheduler)

    def step(index: int) -> None:
        torch.manual_seed(index)
        data = torch.randint(0, 256, (8, 65))
        loss = nn.functional.cross_entropy(model(data[:, :-1]).flatten(0, 1), data[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()

    return tree, step


def measure(width: int, depth: int, steps: int) -> str:
    """Time `steps` steps and the capture before each; returns one line of the table."""
    tree, step = build(width, depth)
    captures, times, digests = [], [], []
    for index in range(steps + 3):
        start = time.perf_counter()
        tree.capture()
        captured = time.perf_counter()
        step(index)
        stepped = time.perf_counter()
        if index % 10 == 3:
            tree.digest()
            digests.append(time.perf_counter() - stepped)
        if index >= 3:
            captures.append(captured - start)
            times.append(stepped - captured)
    capture_s, step_s, digest_s = map(statistics.median, (captures, times, digests))
    tensors = tree.tensors()
    size_mib = sum(tensor.numel() for tensor in tensors) / 2**20
    return (
        f"{len(tensors):8d} {size_mib:8.2f} {step_s * 1e3:9.2f} {capture_s * 1e6:11.0f} "
        f"{100 * capture_s / step_s:7.2f} {digest_s * 1e3:10.2f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, 1 thread, {steps} steps each")
    print(f"{'tensors':>8} {'MiB':>8} {'step ms':>9} {'capture us':>11} {'%':>7} {'digest ms':>10}")
    for width, depth in ((64, 2), (128, 2), (128, 4), (256, 4)):
        print(measure(width, depth, steps), flush=True)


if __name__ == "__main__":
    main()
