"""Cluster `docker`: one container for each node, on a network of its own.

Without an image from the user a node is this host again: an image from an almost empty tree, with the host's
programs, this Python and this project mounted read-only under their own paths. So no registry is asked.
Everything carries the run's label, by which it is found and removed, also when the tool is dead.

A node has CAP_SYS_PTRACE, without which docker's seccomp profile forbids `pidfd_getfd`: `recovery` would then
release survivors by a thread inside them, which a held GIL can stop.

With an image of the user's, programs come from it: a command line is taken as it is, and what this host's
environment says about paths is kept out.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from chaos.clusters import docker_image, processes
from chaos.clusters.base import Ability, Cluster, Output, Plot
from chaos.clusters.docker_exec import Exec
from chaos.clusters.running import Running
from chaos.errors import Refused, TargetFailed
from injectors.cluster import daemon, undoing
from injectors.fault import Node, UndoRecord

if TYPE_CHECKING:
    from docker import DockerClient

INTERFACE = "eth0"
SHM_BYTES = 512 * 1024 * 1024
# Keeps the container, and reaps what is orphaned in it.
HOLDER = "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nwhile True:\n    signal.pause()"
HOLDER_SHELL = "trap : CHLD; while :; do sleep 1000; done"
SUBNETS = 64
OF_THIS_HOST = frozenset({"PATH", "HOME", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME"})
ENDED_S = 10.0


def probe() -> Ability:
    """Ask the daemon who it is, and look whether it is on this machine."""
    try:
        with closing(daemon.client()) as client:
            version = client.version()["Version"]
    except daemon.Missing as error:
        return Ability(False, str(error), error.mend)
    return Ability(True, f"nodes are containers of docker {version}")


def check_image(name: str) -> None:
    """Refuse an image that is not on this machine; nothing is ever pulled.

    Raises:
        Refused: it is not here.
    """
    import docker

    with closing(daemon.client()) as client:
        try:
            client.images.get(name)
        except docker.errors.ImageNotFound:
            raise Refused(
                f"there is no docker image {name!r} on this machine",
                f"docker pull {name}, or leave `image:` out: a node is then made from this host",
            ) from None


class DockerCluster(Cluster):
    """Containers."""

    kind: ClassVar[str] = "docker"
    own_pids: ClassVar[bool] = True

    def __init__(self, plot: Plot) -> None:
        super().__init__(plot)
        self._client: DockerClient | None = None
        self._labels = {undoing.LABEL: plot.run, undoing.CLUSTER_LABEL: plot.name}
        self._address = daemon.address()

    @property
    def python(self) -> str:
        return "python3" if self.plot.image else sys.executable

    def program(self, name: str, found: str) -> str:
        return name if self.plot.image else found

    def undo_record(self) -> UndoRecord:
        data = {"run": self.plot.run, "cluster": self.plot.name, "daemon": self._address}
        return UndoRecord(undoing.DOCKER, data=data)

    def open(self) -> None:
        import docker

        try:
            self._client = daemon.client(self._address)
            image = self.plot.image or docker_image.make(self._client, self.plot, self._labels)
            network, prefix = self._make_network()
            for index in range(self.plot.nodes):
                self.nodes.append(self._make(index, image, network, f"{prefix}.{index + 2}"))
        except (daemon.Missing, docker.errors.DockerException, OSError) as error:
            self.destroy()
            mend = "see `torch-chaos doctor`"
            raise TargetFailed(f"docker nodes cannot be made: {error}", mend) from None

    def _make_network(self) -> tuple[Any, str]:
        """A network of the cluster's own, on the first subnet of ours that nobody has."""
        import docker

        assert self._client is not None
        seed = hashlib.sha256(f"{self.plot.run}/{self.plot.name}".encode()).digest()
        for attempt in range(SUBNETS):
            prefix = f"10.{(seed[0] + attempt) % 256}.{seed[1]}"
            pool = docker.types.IPAMPool(subnet=f"{prefix}.0/24")
            try:
                made = self._client.networks.create(
                    f"torch-chaos-{self.plot.run}-{self.plot.name}",
                    driver="bridge",
                    internal=True,
                    labels=self._labels,
                    ipam=docker.types.IPAMConfig(pool_configs=[pool]),
                )
                return made, prefix
            except docker.errors.APIError as error:
                if "overlaps" not in str(error) and "conflicts" not in str(error):
                    raise
        raise TargetFailed("every subnet that a cluster may have is taken", "`docker network prune`")

    def _make(self, index: int, image: str, network: Any, address: str) -> Node:
        assert self._client is not None
        own = not self.plot.image
        holder = [self.python, "-I", "-S", "-c", HOLDER] if own else ["sh", "-c", HOLDER_SHELL]
        api = self._client.api
        endpoints: Any = {network.name: api.create_endpoint_config(ipv4_address=address)}
        made = api.create_container(
            image,
            command=holder,
            entrypoint="",
            name=f"torch-chaos-{self.plot.run}-{self.plot.name}-node{index}",
            hostname=f"node{index}",
            user=f"{os.getuid()}:{os.getgid()}",
            labels=self._labels,
            environment={processes.MARKER: self.plot.run},
            host_config=api.create_host_config(
                mounts=docker_image.mounts(self.plot, own),
                cap_add=["SYS_PTRACE"],
                shm_size=SHM_BYTES,
                network_mode=network.name,
            ),
            networking_config=api.create_networking_config(endpoints),
        )
        return self._started(index, made["Id"], network.id, address)

    def _started(self, index: int, container: str, network: str, address: str) -> Node:
        assert self._client is not None
        self._client.api.start(container)
        pid = int(self._client.api.inspect_container(container)["State"]["Pid"])
        holder = processes.read(pid)
        if holder is None or holder.ended:
            raise TargetFailed(
                f"the container of node{index} has no process on this machine: {self._why(container)}",
                "the daemon must run on this machine, in a pid namespace that this process can see",
            )
        return Node(
            index=index,
            name=f"node{index}",
            kind=self.kind,
            address=address,
            interface=INTERFACE,
            pid=pid,
            start_ticks=holder.start_ticks,
            container=container,
            network=network,
            daemon=self._address,
        )

    def _why(self, container: str) -> str:
        assert self._client is not None
        state = self._client.api.inspect_container(container)["State"]
        said = self._client.api.logs(container, tail=3).decode(errors="replace").strip()
        return f"{state['Status']}, code {state['ExitCode']} {state.get('Error') or ''} {said}".strip()

    def start(
        self, index: int, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, output: Output
    ) -> Running:
        import docker

        assert self._client is not None
        if self.plot.image:
            env = {key: value for key, value in env.items() if key not in OF_THIS_HOST}
        paths = [os.readlink(f"/proc/self/fd/{fd}") for fd in (output.stdout, output.stderr)]
        # The daemon would send the output through this process; the node can write its files itself.
        script = f'exec "$@" </dev/null >>{shlex.quote(paths[0])} 2>>{shlex.quote(paths[1])}'
        api = self._client.api
        try:
            made = api.exec_create(
                self.nodes[index].container,
                ["sh", "-c", script, "sh", *argv],
                environment=dict(env),
                workdir=str(cwd or Path.cwd()),
                user=f"{os.getuid()}:{os.getgid()}",
            )
            api.exec_start(made["Id"], detach=True)
            return Exec(self._client, made["Id"], list(argv), self.nodes[index])
        except docker.errors.DockerException as error:
            raise TargetFailed(f"node{index}: {argv[0]} could not be started: {error}") from None

    def revive(self, index: int) -> Node:
        import docker

        node = self.nodes[index]
        if self._client is None:
            raise TargetFailed("the cluster has been taken down")
        try:
            self.nodes[index] = self._started(index, node.container, node.network, node.address)
        except docker.errors.DockerException as error:
            raise TargetFailed(f"node {index} cannot be started again: {error}") from None
        return self.nodes[index]

    def processes_of(self, index: int) -> list[int]:
        node = self.nodes[index]
        inode = processes.namespace_of(node.pid)
        found = [] if inode is None else processes.in_namespace(inode)
        return [process.pid for process in found if process.pid != node.pid]

    def destroy(self) -> list[str]:
        client, self._client = self._client, None
        self.nodes = []
        if client is None:
            return []
        done, detail = undoing.remove_containers(client, self.plot.run, self.plot.name, ENDED_S)
        client.close()
        return [] if done else [detail]

    def left(self) -> list[str]:
        try:
            with closing(daemon.client(self._address)) as client:
                return undoing.ours(client, self.plot.run, self.plot.name)
        except daemon.Missing as error:
            return [f"containers, perhaps: {error}"]
