"""Start a job: `python -m recovery.launch --nproc-per-node 4 train.py`. Flags are named as torchrun's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from recovery.core.config import Config
from recovery.shell.zygote import Job, Zygote

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
    add("--nproc-per-node", "--nproc_per_node", type=_positive, default=1, metavar="N", help="ranks")
    add("--spares", type=_not_negative, default=1, metavar="K", help="warm processes kept (default 1)")
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
    from recovery.shell.supervisor import Supervisor
    from recovery.shell.worker import Program

    config = Config(
        world_size=options.nproc_per_node,
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
    )
    fork = options.start_method == "fork" or (options.start_method == "auto" and not _has_gpu())
    return Supervisor(config, program, fork=fork).run()


def _has_gpu() -> bool:
    """Without asking CUDA: a process that has touched it may not fork."""
    return os.path.exists("/dev/nvidiactl") and os.environ.get("CUDA_VISIBLE_DEVICES") != ""


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
