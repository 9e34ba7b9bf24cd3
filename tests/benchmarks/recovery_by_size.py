"""Recovery time by phase for 5, 50 and 500 MB of state, beside the floor.

    python tests/benchmarks/recovery_by_size.py

A random rank is killed, again and again in one job. The floor is what no runtime of this kind can go below on
this machine: noticing the death (from the signal until the kernel says that the process is gone), connecting
four ranks by gloo, and the bytes divided by the measured bandwidth of a copy between two processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import record

TARGET = Path(__file__).parent / "size_target.py"
PHASES = ("detect", "fence", "regroup", "transfer", "resume")


def events(path: Path, job: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Events as they are written, until the job ends."""
    while not path.exists():
        time.sleep(0.005)
    with path.open(encoding="utf-8") as file:
        text = ""
        while True:
            chunk = file.readline()
            if not chunk:
                if job.poll() is not None:
                    return
                time.sleep(0.002)
                continue
            text += chunk
            if text.endswith("\n"):
                yield json.loads(text)
                text = ""


def kill_and_time(pid: int) -> float:
    """Kill a process. Returns the seconds until the kernel reports it gone."""
    pidfd = os.pidfd_open(pid)
    start = time.monotonic()
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    select.select([pidfd], [], [], 10)
    os.close(pidfd)
    return time.monotonic() - start


def measure(megabytes: float, args: argparse.Namespace, rng: random.Random) -> dict[str, Any]:
    """One job of `kills` kills."""
    steps = args.gap * (args.kills + 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        env = {**os.environ, "RECOVERY_EVENTS": str(path), "PYTHONPATH": str(record.ROOT)}
        launch = [
            "-m",
            "recovery.launch",
            "--nproc-per-node",
            str(args.world),
            "--seed",
            str(args.seed),
            str(TARGET),
        ]
        flags = ["--steps", str(steps), "--megabytes", str(megabytes)]
        job = subprocess.Popen([sys.executable, *launch, *flags], env=env, stderr=subprocess.DEVNULL)
        pids: dict[int, int] = {}
        killed = 0
        done: list[dict[str, Any]] = []
        gone: list[float] = []
        commits: list[tuple[int, int, float]] = []
        for event in events(path, job):
            if event["event"] == "generation.open":
                pids = {member["rank"]: member["pid"] for member in event["members"]}
            elif event["event"] == "recovery.done":
                done.append(event)
            elif event["event"] == "step.commit":
                commits.append((event["rank"], event["step"], event["t"]))
                if event["step"] >= args.gap * (killed + 1) and killed < args.kills and len(done) == killed:
                    killed += 1
                    gone.append(kill_and_time(pids[rng.randrange(args.world)]))
        code = job.wait(60)
        assert code == 0, f"the job ended with {code}"
    result: dict[str, Any] = {f"{p}_s": median(e[f"{p}_s"] for e in done) for p in PHASES}
    totals = [e["total_s"] for e in done]
    gaps = [
        after - before
        for rank in range(args.world)
        for (i, before), (j, after) in itertools.pairwise((s, t) for r, s, t in commits if r == rank)
        if j == i + 1
    ]
    return {
        **result,
        "megabytes": megabytes,
        "recoveries": len(done),
        "total_s": median(totals),
        "worst_s": max(totals),
        "bytes": int(median(e["bytes"] for e in done)),
        "gone_s": median(gone),
        "step_s": median(gaps) if gaps else None,
    }


def copy_bandwidth(size: int = 1 << 29) -> float:
    """Bytes a second from one process's memory to another's over a socket; the best of five."""
    best = 0.0
    for _ in range(5):
        mine, other = socket.socketpair()
        child = os.fork()
        if child == 0:
            mine.close()
            buffer = bytearray(size)
            view, got = memoryview(buffer), 0
            while got < size:
                got += other.recv_into(view[got:])
            other.sendall(b"k")
            os._exit(0)
        other.close()
        data = bytearray(size)
        start = time.monotonic()
        mine.sendall(data)
        mine.recv(1)
        best = max(best, size / (time.monotonic() - start))
        mine.close()
        os.waitpid(child, 0)
    return best


def connect_s(world: int) -> float:
    """Seconds to connect `world` ranks by gloo and to pass one barrier; the median of seven."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    times = []
    for _ in range(7):
        with tempfile.TemporaryDirectory() as folder:
            children = []
            for rank in range(world):
                child = os.fork()
                if child == 0:
                    store = dist.FileStore(f"{folder}/store", world)
                    start = time.monotonic()
                    group = dist.ProcessGroupGloo(store, rank, world, timedelta(seconds=20))
                    group.barrier().wait()
                    Path(folder, f"{rank}").write_text(str(time.monotonic() - start), encoding="utf-8")
                    os._exit(0)
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
            times.append(
                max(float(Path(folder, f"{rank}").read_text(encoding="utf-8")) for rank in range(world))
            )
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--gap", type=int, default=4, help="steps between kills")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[5, 50, 500])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    machine = record.environment()
    rng = random.Random(args.seed)
    rows = [measure(size, args, rng) for size in args.megabytes]
    bandwidth, connect = copy_bandwidth(), connect_s(args.world)
    for row in rows:
        row["floor_s"] = row["gone_s"] + connect + row["bytes"] / bandwidth
    result = {
        "seed": args.seed,
        "environment": machine,
        "world": args.world,
        "kills": args.kills,
        "copy_bytes_per_s": bandwidth,
        "connect_s": connect,
        "sizes": rows,
    }
    record.write("recovery_by_size", result, markdown)


def markdown(r: dict[str, Any]) -> str:
    floor = f"connecting {r['world']} ranks ({r['connect_s'] * 1000:.0f} ms)"
    lines = [
        f"{r['world']} ranks, {r['kills']} kills of a random rank for each size. Medians in ms.",
        f"Floor: death seen by the kernel + {floor} + bytes / {r['copy_bytes_per_s'] / 1e9:.2f} GB/s.",
        "",
        "| state | step | detect | fence | regroup | transfer | resume | whole | worst | moved | floor |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in r["sizes"]:
        figures = [row["step_s"], *(row[f"{phase}_s"] for phase in PHASES), row["total_s"], row["worst_s"]]
        cells = " | ".join(f"{value * 1000:.0f}" for value in figures)
        moved, floor = f"{row['bytes'] / 1e6:.1f} MB", f"{row['floor_s'] * 1000:.0f}"
        lines.append(f"| {row['megabytes']:g} MB | {cells} | {moved} | {floor} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
