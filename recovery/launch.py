"""Start a job: `python -m recovery.launch --nproc-per-node 4 train.py`. Flags are named as torchrun's.

On several nodes the same line runs on each, with `--nnodes`, `--node-rank`, `--rdzv-endpoint` and a token
file.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recovery import places
from recovery.core.config import Config
from recovery.shell.zygote import Job, Zygote

if TYPE_CHECKING:
    from recovery.shell.worker import Program

__all__ = ["Job", "Zygote", "main"]

USAGE_ERROR = 64


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        print(f"recovery.launch: {message}\n  mend: see python -m recovery.launch --help", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m recovery.launch",
        description="Run a training script on several ranks that recover from each other's memory.",
        epilog="Exit codes: 0 done, 1 the job failed (the cause is named), 3 every holder of the state is"
        " gone, 64 bad usage, 130 interrupted.",
    )
    add = parser.add_argument
    add(
        "--nproc-per-node",
        "--nproc_per_node",
        type=_positive,
        default=int(os.environ.get("PET_NPROC_PER_NODE", "1")),
        metavar="N",
        help="ranks on each node",
    )
    add("--spares", type=_not_negative, default=1, metavar="K", help="warm processes kept a node (default 1)")
    add(
        "--max-restarts",
        "--max_restarts",
        type=_not_negative,
        default=100,
        metavar="M",
        help="global budget of replaced ranks and regroups (default 100)",
    )
    add("--seed", type=int, default=0, help="every rank's randomness derives from it (default 0)")
    add(
        "--preload",
        action="append",
        default=[],
        metavar="MODULE",
        help="import MODULE in the template, so that replacements need not (may be repeated)",
    )
    add(
        "--start-method",
        choices=("auto", "fork", "exec"),
        default="auto",
        help="how workers are created; auto: fork from a warm template, exec where there is a GPU",
    )
    add(
        "--hang-min-s",
        type=float,
        default=1.0,
        metavar="S",
        help="never accuse a rank of a hang sooner (default 1.0)",
    )
    nodes = parser.add_argument_group("several nodes")
    add = nodes.add_argument
    add(
        "--nnodes",
        type=_positive,
        metavar="N",
        help="nodes (default: what Slurm or torchrun's variables say, or 1)",
    )
    add(
        "--node-rank", "--node_rank", type=_not_negative, metavar="R", help="this node, from 0; 0 coordinates"
    )
    add("--rdzv-endpoint", "--rdzv_endpoint", metavar="HOST:PORT", help="where node 0 listens")
    add(
        "--token-file",
        metavar="FILE",
        default=os.environ.get("RECOVERY_TOKEN_FILE"),
        help="the job's secret, mode 0600, the same on every node (or RECOVERY_TOKEN_FILE)",
    )
    add(
        "--min-nodes",
        type=_positive,
        metavar="N",
        help="go on with no fewer (default: more than half, of two nodes one)",
    )
    add(
        "--max-per-node",
        type=_positive,
        metavar="N",
        help="ranks that one node may hold when others are lost",
    )
    add(
        "--lease-s",
        type=_seconds,
        default=2.0,
        metavar="S",
        help="a silent node is given up after this (2.0)",
    )
    add(
        "--node-wait-s",
        type=_seconds,
        default=300.0,
        metavar="S",
        help="how long to wait for nodes that can't be done without (300)",
    )
    add = parser.add_argument
    add("-m", "--module", action="store_true", help="the script is a module name")
    add("script", help="the training script")
    add("script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code; see the parser's epilog."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    if not options.module and not os.path.isfile(options.script):
        print(f"recovery.launch: no such script: {options.script}\n  mend: check the path", file=sys.stderr)
        return USAGE_ERROR
    try:
        place = places.find(options.nnodes, options.node_rank, options.rdzv_endpoint)
        return _run(options, place)
    except places.PlaceError as error:
        print(f"recovery.launch: {error}", file=sys.stderr)
        return USAGE_ERROR


def _run(options: argparse.Namespace, place: places.Place) -> int:
    from recovery.shell.worker import Program

    config = Config(
        world_size=options.nproc_per_node * place.nodes,
        spares=options.spares,
        max_restarts=options.max_restarts,
        hang_min_s=options.hang_min_s,
    )
    program = Program(
        script=options.script,
        arguments=tuple(options.script_args),
        is_module=options.module,
        seed=options.seed,
        preload=tuple(options.preload),
        local_world_size=options.nproc_per_node,
    )
    fork = options.start_method == "fork" or (options.start_method == "auto" and not _has_gpu())
    if place.nodes > 1:
        return _run_node(options, place, config, program, fork)
    from recovery.shell.supervisor import Supervisor

    return Supervisor(config, program, fork=fork).run()


def _run_node(
    options: argparse.Namespace, place: places.Place, config: Config, program: Program, fork: bool
) -> int:
    """This node's part of a job of several nodes."""
    secret = places.secret_from(options.token_file)
    full = options.nproc_per_node + options.spares
    config = replace(
        config,
        nodes=place.nodes,
        min_nodes=options.min_nodes or (place.nodes // 2 + 1 if place.nodes > 2 else 1),
        # Processes can share a core, but not a device.
        max_per_node=options.max_per_node or (full if _has_gpu() else None),
        lease_s=options.lease_s,
        lease_margin_s=min(0.3, options.lease_s / 4),
        beat_s=min(0.2, options.lease_s / 8),
        node_wait_s=options.node_wait_s,
    )
    # What differs between nodes would be noticed much later, as a desync or a wrong sum.
    facts = {
        "nnodes": place.nodes,
        "nproc_per_node": options.nproc_per_node,
        "seed": options.seed,
        "script": os.path.basename(options.script),
        "script_args": list(options.script_args),
    }
    os.environ["RECOVERY_NODE"] = str(place.node)
    try:
        host = socket.gethostbyname(place.host)
    except OSError as error:
        raise places.PlaceError(
            f"no address for {place.host}: {error}\n  mend: check --rdzv-endpoint"
        ) from None
    if place.node:
        from recovery.shell.outpost import Outpost

        return Outpost(
            place.node,
            (host, place.port),
            secret,
            facts,
            config.world_size,
            lambda address: replace(program, address=address),
            fork=fork,
            patience_s=options.node_wait_s,
        ).run()
    from recovery.shell.fleet import FleetSupervisor

    try:
        supervisor = FleetSupervisor(
            config, replace(program, address=host), (host, place.port), secret, facts, fork=fork
        )
    except OSError as error:
        raise places.PlaceError(
            f"node 0 can't listen at {host}:{place.port}: {error.strerror}\n"
            "  mend: an address of this machine and a free port"
        ) from None
    return supervisor.run()


def _has_gpu() -> bool:
    """Without asking CUDA: a process that has touched it may not fork."""
    return os.path.exists("/dev/nvidiactl") and os.environ.get("CUDA_VISIBLE_DEVICES") != ""


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
