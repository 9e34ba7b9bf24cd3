"""A program that shares a device with a job: it burns some of the time, or holds some of the free memory.

Run as a program on the one device that it sees. It says one line of JSON when it has begun, one more for each
line that it reads, and ends with its standard input or when its time is up. Standard library and torch only,
no import of ours: it is started by path.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any

PERIOD_S = 0.1
"""A burst and the pause after it; short against a step that is to feel it."""
SIDE = 4096
"""Of the square matrices that are multiplied: large enough to fill any device."""


class Burner:
    """Multiplies matrices for a share of every period."""

    def __init__(self, torch: Any, duty: float) -> None:
        self._torch, self._duty = torch, duty
        self._matrix = torch.ones((SIDE, SIDE), device="cuda", dtype=torch.float16)
        self._start = time.monotonic()
        self.bursts = 0
        self.busy_s = 0.0

    def turn(self) -> None:
        """One period."""
        start = time.monotonic()
        until = start + self._duty * PERIOD_S
        while time.monotonic() < until:
            self._torch.mm(self._matrix, self._matrix)
            # Without it the queue would fill, and the device be busy all the time.
            self._torch.cuda.synchronize()
        busy_s = time.monotonic() - start
        self.bursts += 1
        self.busy_s += busy_s
        # What one multiplication overran is made up for in the pause, so that the share holds.
        time.sleep(busy_s * (1.0 - self._duty) / self._duty)

    def seen(self) -> dict[str, Any]:
        """Counters, and the share of time that was used."""
        elapsed_s = time.monotonic() - self._start
        return {"bursts": self.bursts, "duty": self.busy_s / elapsed_s if elapsed_s > 0 else 0.0}


class Hog:
    """Holds a share of the memory that was free."""

    def __init__(self, torch: Any, share: float) -> None:
        self._torch = torch
        self.free_before, self.total = torch.cuda.mem_get_info()
        self.held = int(share * self.free_before)
        # Written to, so that it is there and not only promised.
        self._block = torch.empty(self.held, device="cuda", dtype=torch.uint8).fill_(1)
        torch.cuda.synchronize()

    def turn(self) -> None:
        """Nothing is to be done to hold it."""
        time.sleep(PERIOD_S)

    def seen(self) -> dict[str, Any]:
        """Bytes held, and free before and now, as the CUDA runtime says."""
        free, total = self._torch.cuda.mem_get_info()
        return {
            "held_bytes": self.held,
            "free_before_bytes": self.free_before,
            "free_bytes": free,
            "total_bytes": total,
        }


def say(**fields: Any) -> None:
    """One line; a starter that is gone hears nothing, and its end ends this process."""
    try:
        os.write(1, json.dumps(fields).encode() + b"\n")
    except OSError:
        pass


def serve(acts: list[Burner | Hog]) -> None:
    """Answer each line that is read with what the act has done so far; end this process when they end."""
    for _ in sys.stdin:
        say(**(acts[0].seen() if acts else {"ready": False}))
    os._exit(0)


def main(arguments: list[str]) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="co_tenant")
    parser.add_argument("act", choices=("burn", "hold"))
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--limit-s", type=float, required=True)
    given = parser.parse_args(arguments)
    acts: list[Burner | Hog] = []
    # Both from the start: torch takes seconds to import, and the tool may die in them.
    clock = threading.Timer(given.limit_s, os._exit, (0,))
    clock.daemon = True
    clock.start()
    threading.Thread(target=serve, args=(acts,), daemon=True).start()
    try:
        import torch

        act: Burner | Hog = Burner(torch, given.share) if given.act == "burn" else Hog(torch, given.share)
        act.turn()
    except (ImportError, RuntimeError, AssertionError) as error:
        # torch without CUDA asserts.
        say(error=f"{type(error).__name__}: {error}"[:500])
        return
    acts.append(act)
    name = str(torch.cuda.get_device_name())
    say(ready=True, torch=str(torch.__version__), device_name=name, **act.seen())
    while True:
        act.turn()


if __name__ == "__main__":
    main(sys.argv[1:])
