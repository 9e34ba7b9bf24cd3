"""What can be broken: a workload under `recovery`, any command line, or a target of the user's own."""

from __future__ import annotations

from chaos.targets.base import End, Launch, Post, Running, Setting, Target

__all__ = ["End", "Launch", "Post", "Running", "Setting", "Target"]
