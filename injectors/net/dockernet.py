"""A container and its network, by the docker command line: cut off, and connected again as it was.

Standard library only: the undo path runs when the tool is already dead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any


class DockerError(RuntimeError):
    """The docker command failed; the message is its own."""


def missing() -> str | None:
    """None where the docker daemon answers; else what is missing."""
    if shutil.which("docker") is None:
        return "the docker command is not installed\n  mend: apt install docker.io"
    try:
        _docker("", ["version", "--format", "{{.Server.Version}}"])
    except DockerError as error:
        return f"the docker daemon does not answer ({error})\n  mend: start it, or join its group"
    return None


def connected(node: Mapping[str, Any]) -> bool | None:
    """Whether a container is on its network; None if the container is gone."""
    networks = _networks(node)
    return None if networks is None else any(n.get("NetworkID") == node["network"] for n in networks.values())


def place_of(node: Mapping[str, Any]) -> dict[str, Any]:
    """The address and the names that a container has on its network, to be given back later.

    Raises:
        DockerError: it is not on that network.
    """
    for found in (_networks(node) or {}).values():
        if found.get("NetworkID") == node["network"]:
            names = [n for n in found.get("Aliases") or [] if not node["container"].startswith(n)]
            return {"address": found["IPAddress"], "aliases": names}
    raise DockerError(f"{node['name']} is not on the network {node['network'][:12]}")


def disconnect(node: Mapping[str, Any]) -> None:
    """Cut a container off its network; its interface goes.

    Raises:
        DockerError: the daemon refuses.
    """
    _docker(node.get("daemon", ""), ["network", "disconnect", "--force", node["network"], node["container"]])


def reconnect(node: Mapping[str, Any]) -> tuple[bool, str]:
    """Connect it again with its old address; returns whether it is done, and what was done."""
    try:
        now = connected(node)
        if now is None:
            return True, "the container is gone"
        if now:
            return True, "it is on its network"
        names = [word for name in node["aliases"] for word in ("--alias", name)]
        words = ["network", "connect", "--ip", node["address"], *names, node["network"], node["container"]]
        _docker(node.get("daemon", ""), words)
    except DockerError as error:
        if "No such network" in str(error) or "not found" in str(error):
            return True, f"the network is gone ({error})"
        return False, str(error)
    return True, f"it is on its network again, as {node['address']}"


def _networks(node: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        text = _docker(
            node.get("daemon", ""),
            ["inspect", "--format", "{{json .NetworkSettings.Networks}}", node["container"]],
        )
    except DockerError as error:
        if "No such" in str(error):
            return None
        raise
    found: dict[str, Any] = json.loads(text)
    return found


def _docker(daemon: str, words: Sequence[str]) -> str:
    where = ["--host", daemon] if daemon else []
    try:
        done = subprocess.run(
            ["docker", *where, *words],
            capture_output=True,
            text=True,
            timeout=30.0,
            check=False,
            env={**os.environ, "DOCKER_CLI_HINTS": "false"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DockerError(str(error)) from error
    if done.returncode != 0:
        raise DockerError(done.stderr.strip() or f"docker {words[0]} failed")
    return done.stdout
