"""The template: a process with torch imported that forks workers in milliseconds.

It stays single-threaded, forks only from its main thread, and forks twice, so that its supervisor (a
subreaper) becomes the worker's parent. With CUDA it is never used: workers are executed instead.
"""

from __future__ import annotations

import importlib
import os
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from recovery.shell.channel import Channel
from recovery.shell.linux import die_with_parent
from recovery.shell.page import Page
from recovery.shell.worker import Program, link_of, work

_REPARENT_POLL_S = 0.0002


def warm(preload: Sequence[str] = ()) -> None:
    """Import and run once everything that a first training step would otherwise pay for."""
    # import torch starts a BLAS thread otherwise, and a fork from several threads hangs.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import torch
    import torch._dynamo  # imported at the first optimizer otherwise: two seconds

    import recovery.run  # noqa: F401

    torch.set_num_threads(1)
    _train_a_toy()
    for name in preload:
        importlib.import_module(name)


def _train_a_toy() -> None:
    import torch
    from torch.nn.parallel import DistributedDataParallel

    from recovery.shell.rehearsal import Rehearsal

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    ddp = DistributedDataParallel(model, process_group=Rehearsal(), init_sync=False)
    ddp(torch.randn(1, 4)).sum().backward()
    optimizer.step()


def serve(channel: Channel, page: Page, program: Program) -> None:
    """Fork a worker for each request, until the supervisor closes the channel."""
    os.environ["RECOVERY_ROLE"] = "template"
    while True:
        try:
            request, fds = channel.receive_with_fds(3)
        except EOFError:
            return
        pid = _fork_worker(channel, page, program, request, fds)
        for fd in fds:
            os.close(fd)
        channel.send(op="forked", proc=request["proc"], pid=pid)


def _fork_worker(
    channel: Channel, page: Page, program: Program, request: Mapping[str, Any], fds: Sequence[int]
) -> int:
    import socket

    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        me = os.getpid()
        worker = os.fork()
        if worker:
            os.write(writing, struct.pack("=i", worker))
            os._exit(0)
        try:
            while (parent := os.getppid()) == me:
                time.sleep(_REPARENT_POLL_S)
            if parent == 1:
                os._exit(1)  # the supervisor died meanwhile
            die_with_parent(parent)
            channel.close()
            os.close(reading)
            os.close(writing)
            channels = [Channel(socket.socket(fileno=fd)) for fd in fds]
            rank, local_rank = request["rank"], request["local_rank"]
            code = work(link_of(program, channels, page, request["proc"], rank, local_rank), program)
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 70
        finally:
            os._exit(code)
    os.close(writing)
    try:
        (pid,) = struct.unpack("=i", os.read(reading, 4))
    finally:
        os.close(reading)
        os.waitpid(middle, 0)
    return int(pid)
