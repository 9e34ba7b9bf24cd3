"""One rank that trains on the device it sees, until its standard input ends."""

import os
import sys
import threading
import time

import torch
from torch import nn

STAND_IN = os.environ.get("TORCH_CHAOS_STAND_IN_CUDA")
if STAND_IN:
    from tests.device import stand_in_cuda

    stand_in_cuda.install(torch)


def main() -> None:
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    device = torch.device("cpu" if STAND_IN else "cuda")
    torch.cuda.init()
    width = 64 if STAND_IN else 2048
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    values = torch.randn(width // 2, width).to(device)
    while not ended.is_set():
        model(values).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        # A step is over when the device has done it: that is what a fault of the device holds up.
        torch.cuda.synchronize()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
