"""The docker daemon: found where the docker command finds it, and asked by the docker SDK."""

from __future__ import annotations

import json
import os
import pwd
import socket
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT = "unix:///var/run/docker.sock"
ASK_S = 30.0


class Missing(Exception):
    """There is no daemon to talk to; `mend` says what to do."""

    def __init__(self, message: str, mend: str) -> None:
        super().__init__(message)
        self.mend = mend


def failures() -> tuple[type[Exception], ...]:
    """What talking to the daemon may raise. The SDK is loaded only where it is needed."""
    try:
        from docker.errors import DockerException
    except ImportError:
        return (Missing, OSError)
    return (Missing, OSError, DockerException)


def address() -> str:
    """Where the docker command would look: DOCKER_HOST, the current context, the usual socket."""
    given = os.environ.get("DOCKER_HOST")
    return given or _of_context() or DEFAULT


def _of_context() -> str | None:
    try:
        folder = Path(os.environ.get("DOCKER_CONFIG") or Path(pwd.getpwuid(os.getuid()).pw_dir) / ".docker")
        current = json.loads((folder / "config.json").read_text()).get("currentContext")
        for meta in (folder / "contexts" / "meta").glob("*/meta.json"):
            found = json.loads(meta.read_text())
            if current and found.get("Name") == current:
                return str(found["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, KeyError):
        pass
    return None


def client(where: str = "") -> DockerClient:
    """A client of the daemon that answers.

    Raises:
        Missing: the SDK is not installed, or nobody answers.
    """
    try:
        import docker
    except ImportError:
        raise Missing("the docker SDK is not installed", "pip install 'torch-chaos[docker]'") from None
    where = where or address()
    found = None
    try:
        _knock(where)
        found = docker.DockerClient(base_url=where, timeout=int(ASK_S))
        found.ping()
        return found
    except (docker.errors.DockerException, OSError) as error:
        if found is not None:
            found.close()
        raise Missing(f"no docker daemon answers at {where}: {_reason(error)}", _mend(where, error)) from None


def _knock(where: str) -> None:
    """Connect once. The SDK, when nobody answers, leaves the socket to the garbage collector.

    Raises:
        OSError: nobody answers.
    """
    if where.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ASK_S)
            line.connect(where.removeprefix("unix://"))


def _reason(error: BaseException) -> str:
    text = str(error)
    for known in ("Permission denied", "No such file or directory", "Connection refused", "timed out"):
        if known in text:
            return known.lower()
    return text[:200]


def _mend(where: str, error: BaseException) -> str:
    if "Permission denied" in str(error):
        return "join the group that owns the socket (often `docker`), or run as root"
    return "start it (`dockerd &` as root), or set DOCKER_HOST"
