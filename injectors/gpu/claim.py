"""A claim: the file by which one run owns one setting of one device.

A device's settings carry no name, so the mark of ownership lies beside them. It is made, as a whole or not at
all, before the setting is touched, and removed when it was restored: of two runs only one gets it, and an
undo that finds no claim of its own knows that nothing was set, or that it has been undone.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from injectors import signals
from injectors.fault import FaultError

PREFIX = "torch-chaos-gpu-"


def path_for(uuid: str, what: str) -> str:
    """Where the claim of a device's setting lies; lost with a restart, as the setting is."""
    folder = "/run/lock" if os.access("/run/lock", os.W_OK) else tempfile.gettempdir()
    return os.path.join(folder, f"{PREFIX}{uuid}-{what}")


def refuse_if_taken(path: str) -> None:
    """Look whether somebody has the claim.

    Raises:
        FaultError: who has it.
    """
    holder = read(path)
    if holder is None:
        return
    pid = int(holder.get("pid", 0))
    alive = signals.is_alive(pid, int(holder.get("start_ticks", 0)))
    mend = "wait until that run has ended" if alive else "torch-chaos rollback on that run's folder"
    raise FaultError(f"{path}: another run of torch-chaos (pid {pid}) has set this device\n  mend: {mend}")


def take(path: str, token: str) -> None:
    """Make the claim.

    Raises:
        FaultError: somebody else has it.
    """
    body = {"token": token, "pid": os.getpid(), "start_ticks": signals.start_ticks(os.getpid())}
    draft = _draft(path, token)
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(body, file)
    try:
        # A link is made whole or not at all, and never over another: no claim is ever half written.
        os.link(draft, path)
    except FileExistsError:
        refuse_if_taken(path)
        raise FaultError(f"{path}: taken and given back meanwhile\n  mend: start again") from None
    finally:
        os.unlink(draft)


def is_ours(path: str, token: str) -> bool:
    """Whether the claim is there and carries our token."""
    holder = read(path)
    return holder is not None and holder.get("token") == token


def give_back(path: str, token: str) -> None:
    """Remove the claim if it is ours; may be repeated."""
    if is_ours(path, token):
        os.unlink(path)
    if os.path.exists(_draft(path, token)):
        os.unlink(_draft(path, token))


def read(path: str) -> Mapping[str, Any] | None:
    """What a claim says; None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    except FileNotFoundError:
        return None


def _draft(path: str, token: str) -> str:
    """Where a claim is written before it is made."""
    return f"{path}.{hashlib.sha256(token.encode()).hexdigest()[:12]}"
