"""A node's image and mounts: this host again, so that what runs here runs there."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.clusters.base import Plot

if TYPE_CHECKING:
    from docker import DockerClient

# Folders of programs and libraries. Where one is a symbolic link (`/bin` on a merged system) the image has
# the link.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
# What of /etc programs need to know who they are, what the time is and where their libraries are. The daemon
# itself brings hosts, hostname and resolv.conf.
ETC = (
    "alternatives",
    "group",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "nsswitch.conf",
    "passwd",
    "protocols",
    "services",
    "ssl",
)
EMPTY = {"etc": 0o755, "proc": 0o555, "sys": 0o555, "dev": 0o755, "run": 0o755, "tmp": 0o1777, "var": 0o755}


def make(client: DockerClient, plot: Plot, labels: Mapping[str, str]) -> str:
    """Import the image of one cluster; returns its name. It is removed with the cluster."""
    name = f"torch-chaos-node:{plot.run}-{plot.name}"
    repository, _, tag = name.partition(":")
    changes = [f"LABEL {key}={value}" for key, value in labels.items()]
    client.api.import_image_from_data(_tree(), repository=repository, tag=tag, changes=changes)
    return name


def _tree() -> bytes:
    """An almost empty root: folders that programs expect, and the host's links to its merged folders."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, mode in EMPTY.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        for path in SYSTEM:
            if os.path.islink(path):
                link = tarfile.TarInfo(path[1:])
                link.type, link.linkname = tarfile.SYMTYPE, os.readlink(path)
                tar.addfile(link)
    return out.getvalue()


def mounts(plot: Plot, own: bool) -> list[Any]:
    """What a node sees of this host: the job's folders, and without an image of the user's the system too."""
    from docker.types import Mount

    writable = _outermost(map(str, plot.writable))
    wanted = [*map(str, plot.readable), *_project()]
    if own:
        wanted += [*_python(), *(path for path in SYSTEM if os.path.isdir(path) and not os.path.islink(path))]
        wanted += [f"/etc/{name}" for name in ETC if os.path.exists(f"/etc/{name}")]
    # What lies in the image's own folders of the user must not be covered by the host's.
    readable = [path for path in _outermost(wanted) if path not in (*writable, "/")]
    return [
        *(Mount(path, path, type="bind", read_only=True) for path in readable),
        *(Mount(path, path, type="bind") for path in writable),
    ]


def _project() -> list[str]:
    """Where this project's packages and whatever else Python was told to look for are."""
    import injectors

    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return [str(Path(injectors.__file__).parents[1]), *map(os.path.abspath, given)]


def _python() -> list[str]:
    """The interpreter, its library, and what is installed for it."""
    prefixes = (
        sys.prefix,
        sys.base_prefix,
        os.path.dirname(os.path.dirname(os.path.realpath(sys.executable))),
    )
    return [*prefixes, *(os.path.abspath(path) for path in sys.path if path and os.path.isdir(path))]


def _outermost(paths: Iterable[str]) -> list[str]:
    """Existing paths, without those that lie in another one of them."""
    kept: list[str] = []
    for path in sorted({path for path in paths if os.path.exists(path)}):
        if not any(path == other or path.startswith(f"{other.rstrip('/')}/") for other in kept):
            kept.append(path)
    return kept
