"""A training loop of a stranger's: adds numbers up on all ranks until a file appears.

torchrun ... endless.py END PROGRESS
"""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    end, progress = Path(sys.argv[1]), Path(sys.argv[2])
    dist.init_process_group("gloo")
    step = 0
    while True:
        over = torch.tensor([float(dist.get_rank() == 0 and end.exists())])
        dist.all_reduce(over)
        if over.item():
            break
        step += 1
        if dist.get_rank() == 0 and step % 20 == 0:
            progress.write_text(str(step))
        time.sleep(0.002)  # what is tested runs on the same processors
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
