"""The state of this machine as far as a fault may change it: what must be the same before and after."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

# How what a fault or a cluster creates says whose it is: labels, comments, names of groups.
OWNERS = (
    re.compile(r'"torch-chaos\.run": "([^"]+)"'),
    re.compile(r"torch-chaos run (\S+) fault"),
    re.compile(r"torch-chaos-([A-Za-z0-9_.]+)-f\d+-\d+"),
)
STRANGERS = re.compile(r"torch.chaos.stranger.(\d+)")
# A container's own mounts and groups come and go with it; containers are compared by themselves.
DOCKERS = ("/var/lib/docker/", "/run/docker/", "/docker/", "/var/lib/containerd/", "/run/containerd/")
COMMAND_S = 20


def snapshot() -> dict[str, str]:
    """Everything, each thing under a name of its own."""
    state: dict[str, str] = {}
    for part in (_nft, _qdiscs, _links, _cgroups, _mounts, _containers, _networks):
        state.update(part())
    return state


def differences(before: Mapping[str, str], after: Mapping[str, str], run: str = "") -> list[str]:
    """What is new, gone or changed. What carries the marker of another run belongs to that one."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now or _another_runs(f"{name} {was} {now}", run):
            continue
        what = "new" if was is None else "gone" if now is None else "changed"
        found.append(f"{what}: {name}\n  before: {was}\n  after: {now}")
    return found


def _another_runs(text: str, run: str) -> bool:
    # Strangers of tests that go on beside these.
    if set(STRANGERS.findall(text)) - {str(os.getpid())}:
        return True
    owners = {owner.replace("_", "-") for pattern in OWNERS for owner in pattern.findall(text)}
    return bool(owners) and run.replace("_", "-") not in owners


def _said(*command: str) -> str | None:
    """What a command prints; None where it is missing or refused."""
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    program = shutil.which(command[0], path=path)
    if program is None:
        return None
    done = subprocess.run(
        [program, *command[1:]], capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    return done.stdout if done.returncode == 0 else None


def _nft() -> Iterator[tuple[str, str]]:
    for table in re.split(r"^(?=table )", _said("nft", "list", "ruleset") or "", flags=re.M):
        if table.strip():
            yield f"nft {table.split('{')[0].strip()}", _dockers_table(table) if "DOCKER" in table else table


def _dockers_table(table: str) -> str:
    """Docker's own rules without what everyone's packets count up, and without those of single networks."""
    lines = [line for line in table.splitlines() if '"br-' not in line]
    return re.sub(r"packets \d+ bytes \d+", "packets - bytes -", "\n".join(lines))


def _qdiscs() -> Iterator[tuple[str, str]]:
    for line in (_said("tc", "qdisc", "show") or "").splitlines():
        words = line.split()
        device = words[words.index("dev") + 1]
        if not _dockers_link(device):
            yield f"qdisc {device} {' '.join(words[1:3])}", line


def _links() -> Iterator[tuple[str, str]]:
    for link in json.loads(_said("ip", "-j", "link", "show") or "[]"):
        if not _dockers_link(link["ifname"]):
            yield f"link {link['ifname']}", f"{link.get('flags')} {link.get('link_type')}"
    for line in (_said("ip", "netns", "list") or "").splitlines():
        yield f"netns {line.split()[0]}", ""


def _dockers_link(name: str) -> bool:
    return name.startswith(("veth", "br-", "docker"))


def _cgroups() -> Iterator[tuple[str, str]]:
    """Groups at the top, and those with a name like ours wherever they are.

    Service managers make and remove groups of their own, further down, all the time.
    """
    root = Path("/sys/fs/cgroup")
    tops = {root, *root.iterdir()} if root.is_dir() else set()
    for folder, _, _ in os.walk(root):
        path = Path(folder)
        docker = any(part in f"{folder}/" for part in DOCKERS)
        if not docker and (path.parent in tops or path.name.startswith("torch-chaos")):
            yield f"cgroup {folder}", ""


def _mounts() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if not any(part in words[4] for part in DOCKERS):
            yield f"mount {words[4]} ({words[0]})", " ".join(words[3:])


def _containers() -> Iterator[tuple[str, str]]:
    yield from _inspected("container", (_said("docker", "ps", "-aq", "--no-trunc") or "").split())


def _networks() -> Iterator[tuple[str, str]]:
    yield from _inspected("network", (_said("docker", "network", "ls", "-q", "--no-trunc") or "").split())


def _inspected(kind: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        # One by one: a name that is gone by now would spoil the answer for all.
        text = _said("docker", kind, "inspect", name)
        if text is not None:
            yield f"docker {kind} {name}", text
