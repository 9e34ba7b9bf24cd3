"""Where a launcher finds itself: on which node of how many, and where the coordinator is.

Flags come first, then what torchrun reads (`PET_*`), then the usual `MASTER_ADDR`, then Slurm's variables, so
that the same line works in a shell, in a pod and under `srun`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass

DEFAULT_PORT = 29400
MIN_SECRET_BYTES = 16


class PlaceError(ValueError):
    """What is given does not say where this launcher is; the message says what to add."""


@dataclass(frozen=True)
class Place:
    """One node's place in the job. `host` and `port` are the coordinator's, node 0's."""

    nodes: int
    node: int
    host: str
    port: int


def find(
    nodes: int | None, node: int | None, endpoint: str | None, env: Mapping[str, str] | None = None
) -> Place:
    """The place that flags (None: not given) and environment say.

    Raises:
        PlaceError: something is missing or contradicts itself.
    """
    env = os.environ if env is None else env
    count = nodes if nodes is not None else _number(env, "PET_NNODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    count = 1 if count is None else count
    if count < 1:
        raise PlaceError(f"{count} nodes\n  mend: --nnodes is 1 or more")
    if count == 1:
        return Place(1, 0, "", 0)
    index = node if node is not None else _number(env, "PET_NODE_RANK", "SLURM_NODEID", "GROUP_RANK")
    if index is None:
        raise PlaceError(f"which of the {count} nodes is this?\n  mend: --node-rank 0 to {count - 1}")
    if not 0 <= index < count:
        raise PlaceError(f"node rank {index} is not one of 0 to {count - 1}\n  mend: check --node-rank")
    host, port = _endpoint(endpoint or env.get("PET_RDZV_ENDPOINT") or _master(env))
    return Place(count, index, host, port)


def _number(env: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = env.get(name)
        if text is None:
            continue
        # torchrun allows a range MIN:MAX of nodes; a job that may shrink is described by --min-nodes here.
        if not text.isdigit():
            raise PlaceError(f"{name}={text!r} is not a whole number\n  mend: give the flag instead")
        return int(text)
    return None


def _master(env: Mapping[str, str]) -> str | None:
    host = env.get("PET_MASTER_ADDR") or env.get("MASTER_ADDR")
    port = env.get("PET_MASTER_PORT") or env.get("MASTER_PORT")
    if host:
        return f"{host}:{port}" if port else host
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST")
    return first_host(nodes) if nodes else None


def first_host(nodelist: str) -> str:
    """The first name of a Slurm node list: `gpu[07-09,12],login1` begins with `gpu07`."""
    found = re.match(r"([^,\[]+)(?:\[([^,\-\]]+))?", nodelist)
    if found is None:
        raise PlaceError(f"{nodelist!r} is no list of nodes\n  mend: give --rdzv-endpoint HOST:PORT")
    suffix = re.match(r"[^,\[]+\[[^\]]*\]([^,\[]*)", nodelist)
    return found.group(1) + (found.group(2) or "") + (suffix.group(1) if suffix else "")


def _endpoint(text: str | None) -> tuple[str, int]:
    if not text:
        raise PlaceError("where is node 0?\n  mend: --rdzv-endpoint HOST:PORT, the same on every node")
    host, _, port = text.partition(":")
    if not host or (port and not port.isdigit()):
        raise PlaceError(f"{text!r} is no endpoint\n  mend: --rdzv-endpoint HOST:PORT")
    return host, int(port) if port else DEFAULT_PORT


def secret_from(path: str | None) -> bytes:
    """The job's secret: every node proves with it that it belongs here.

    Raises:
        PlaceError: there is none, others can read it, or it is too short.
    """
    how = "head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE"
    if not path:
        raise PlaceError(
            "a job of several nodes needs a secret that only its nodes know\n"
            f"  mend: {how}; then --token-file FILE (or RECOVERY_TOKEN_FILE) on every node"
        )
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            secret = file.read().strip()
    except OSError as error:
        raise PlaceError(f"the token file {path} can't be read: {error.strerror}\n  mend: {how}") from None
    if stat.S_IMODE(mode) & 0o077:
        raise PlaceError(f"the token file {path} can be read by others\n  mend: chmod 600 {path}")
    if len(secret) < MIN_SECRET_BYTES:
        raise PlaceError(f"the token in {path} is shorter than {MIN_SECRET_BYTES} bytes\n  mend: {how}")
    return secret
