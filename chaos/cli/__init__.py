"""The command line. Nothing here imports torch, and `--help` imports no engine either."""

from __future__ import annotations


def main() -> None:
    """`torch-chaos`: run the command line, turn the errors a user can mend into a message and an exit
    code."""
    from chaos.cli.app import main as run

    run()


__all__ = ["main"]
