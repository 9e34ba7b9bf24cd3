"""A job of several nodes without torch: node 0 counts steps aloud, the others hold a line to it.

    nodes_job.py RANK ADDRESS PORT STEPS NODES [--linger]

Node 0 begins when all others are there and ends after its last step with 0; another node ends with 0 when
node 0 closes the line. On SIGTERM a node says so and ends, or with `--linger` goes on.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from types import FrameType

STEP_S = 0.03


def told(number: int, frame: FrameType | None) -> None:
    print(f"signal {number}", flush=True)
    if "--linger" not in sys.argv:
        sys.exit(0)


def count(address: str, port: int, steps: int, nodes: int) -> None:
    with socket.create_server((address, port)) as ear:
        ear.settimeout(30)
        lines = [ear.accept()[0] for _ in range(nodes - 1)]
        ear.setblocking(False)
        for step in range(steps):
            try:
                lines.append(ear.accept()[0])
            except BlockingIOError:
                pass
            time.sleep(STEP_S)
            print(f"step {step}", flush=True)
        for line in lines:
            line.close()


def hold(address: str, port: int) -> None:
    while True:
        try:
            line = socket.create_connection((address, port), timeout=5)
            break
        except OSError:
            time.sleep(0.05)
    print("connected", flush=True)
    line.settimeout(60)
    with line:
        try:
            line.recv(1)
        except ConnectionError:
            pass


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, told)
    if sys.argv[1] == "0":
        count(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
    else:
        hold(sys.argv[2], int(sys.argv[3]))
