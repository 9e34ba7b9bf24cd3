"""Steady-state cost of `recovery`: its step against plain DDP's, in the same four processes of one job.

    python tests/benchmarks/overhead.py

Blocks alternate: plain DDP, recovery, plain DDP, recovery ... Both arms train the same model on the same data
with the same optimizer; each has its own copy. The plain arm is DDP as a user writes it, over gloo: it is in
the same process, but its steps go through none of our runtime. State digests and the event file are off, as
in production. Wall time is rank 0's, CPU time the sum over all ranks and all their threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import record


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--world", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=30, help="of blocks")
    parser.add_argument("--block", type=int, default=20, help="steps in a block")
    parser.add_argument("--width", type=int, default=64, help="of the transformer; 64 is tiny_gpt's own")
    parser.add_argument("--sequences", type=int, default=4, help="of 32 bytes, in a rank's batch")
    parser.add_argument("--fixed-layout", action="store_true", help="the plain arm pays for that too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="overhead", help="of the record")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def plain_group(rank: int, world: int, store_file: Path) -> Any:
    """A gloo group that our runtime knows nothing of."""
    import torch
    import torch.distributed as dist

    store = dist.FileStore(str(store_file), world)
    group = dist.ProcessGroup(store, rank, world)
    backend = dist.ProcessGroupGloo(store, rank, world, timedelta(seconds=60))
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, backend)
    return group


def worker(args: argparse.Namespace) -> None:
    """One rank: both arms, block by block."""
    import torch
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    import recovery
    from suites.workloads import tiny_gpt

    run = recovery.join()
    tiny_gpt.WIDTH = args.width
    corpus, _ = tiny_gpt.read_corpus()
    group = plain_group(run.rank, run.world_size, args.worker / "store")

    def arm(wrap: Any) -> Any:
        torch.manual_seed(run.seed)
        model = tiny_gpt.TinyGPT()
        trained = [p for p in model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
        wrapped = wrap(model, optimizer)

        def step(index: int) -> float:
            places = [
                (index * 7919 + run.rank * 104729 + i * 31) % (len(corpus) - 64)
                for i in range(args.sequences)
            ]
            text = torch.stack([corpus[p : p + tiny_gpt.CONTEXT + 1] for p in places]).long()
            loss = wrapped(text)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            return float(loss.item())

        step.bytes = 3 * sum(p.numel() * p.element_size() for p in trained)  # type: ignore[attr-defined]
        return step

    def protected(model: Any, optimizer: Any) -> Any:
        run.protect(model=model, optimizer=optimizer)
        return run.data_parallel(model)

    ours = arm(protected)
    options = {"process_group": group, "init_sync": False, "find_unused_parameters": args.fixed_layout}
    plain = arm(lambda model, _: DistributedDataParallel(model, **options))

    blocks: list[tuple[float, float, float, float]] = []
    marks = [0.0, 0.0, 0.0]
    warm = 2 * args.block
    for index in run.steps(warm + args.pairs * args.block):
        if index % args.block == 0:
            with run.busy("plain block", limit=600):
                begun = time.perf_counter(), time.process_time()
                for i in range(args.block):
                    plain(index + i)
                ended = time.perf_counter(), time.process_time()
            marks = [ended[0] - begun[0], ended[1] - begun[1], 0.0]
            start = time.perf_counter(), time.process_time()
        run.step(ours, index)
        if index % args.block == args.block - 1 and index >= warm:
            blocks.append(
                (time.perf_counter() - start[0], time.process_time() - start[1], marks[0], marks[1])
            )
    (args.worker / f"rank{run.rank}.json").write_text(
        json.dumps({"blocks": blocks, "bytes": ours.bytes}), encoding="utf-8"
    )


def main() -> None:
    args = parse()
    if args.worker is not None:
        worker(args)
        return
    machine = record.environment()
    with tempfile.TemporaryDirectory() as folder:
        launch = [
            "-m",
            "recovery.launch",
            "--nproc-per-node",
            str(args.world),
            "--seed",
            str(args.seed),
            __file__,
        ]
        flags = [f"--{k}={getattr(args, k)}" for k in ("pairs", "block", "width", "sequences", "seed")]
        flags += ["--fixed-layout"] if args.fixed_layout else []
        env = {k: v for k, v in os.environ.items() if not k.startswith("RECOVERY_")}
        env["PYTHONPATH"] = os.pathsep.join([str(record.ROOT), str(Path(__file__).parent)])
        subprocess.run(
            [sys.executable, *launch, *flags, "--worker", folder], env=env, cwd=record.ROOT, check=True
        )
        ranks = [
            json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).glob("rank*.json"))
        ]
    per_step = 1000 / args.block
    wall = [(a * per_step, b * per_step) for a, _, b, _ in ranks[0]["blocks"]]
    cpu = [
        (sum(r["blocks"][i][1] for r in ranks) * per_step, sum(r["blocks"][i][3] for r in ranks) * per_step)
        for i in range(len(wall))
    ]
    result = {
        "seed": args.seed,
        "environment": machine,
        "model": f"tiny_gpt, width {args.width}, {ranks[0]['bytes'] / 1e6:.1f} MB of parameters and moments,"
        f" {args.sequences * 32} tokens a rank and step",
        "layout": "with the same fixed bucket layout" if args.fixed_layout else "with its defaults",
        "world": args.world,
        "pairs": len(wall),
        "steps_in_block": args.block,
        "wall_ms": wall,
        "cpu_ms": cpu,
        "wall_ratio": record.ratio_interval(wall, args.seed),
        "cpu_ratio": record.ratio_interval(cpu, args.seed),
    }
    record.write(args.name, result, markdown)


def markdown(r: dict[str, Any]) -> str:
    blocks = f"{r['pairs']} pairs of blocks of {r['steps_in_block']} steps"
    return "\n".join(
        [
            f"Model: {r['model']}; {r['world']} ranks, {blocks}; plain DDP {r['layout']}.",
            "",
            "| per step, ms: mean (median) | plain DDP | recovery | difference, 95 % interval |",
            "|---|---|---|---|",
            record.comparison("wall time, rank 0", r["wall_ms"], r["wall_ratio"]),
            record.comparison("CPU time, all ranks", r["cpu_ms"], r["cpu_ratio"]),
        ]
    )


if __name__ == "__main__":
    main()
