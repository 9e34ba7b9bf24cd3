"""Forks a process for each line on stdin; each hosts a TCPStore until killed. Answers pid and port."""

import json
import os
import signal
import sys

import torch.distributed as dist

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        order = json.loads(line)
        store = dist.TCPStore(
            "127.0.0.1",
            order.get("port", 0),
            None,
            True,
            wait_for_workers=False,
            use_libuv=order.get("use_libuv", True),
        )
        for key, value in order.get("keys", {}).items():
            store.set(key, value)
        os.write(write, str(store.port).encode())
        while True:
            signal.pause()
    os.close(write)
    print(json.dumps({"pid": pid, "port": int(os.read(read, 16))}), flush=True)
    os.close(read)
