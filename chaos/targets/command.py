"""Target `command`: any command line, unchanged; `torchrun` first of all.

Nothing of it outlives the tool: see `chaos.clusters.contained`. On a cluster the same line is started on each
node, with `{node_rank} {nnodes} {nproc_per_node} {master_addr} {master_port}` filled in.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar, Literal

from chaos.clusters import contained
from chaos.clusters.base import Output
from chaos.errors import UserError
from chaos.targets import paths
from chaos.targets.base import Launch, Post, Running, Target


class CommandTarget(Target):
    """An unchanged command line; steps come from the agent."""

    step_source: ClassVar[Literal["recovery", "agent"]] = "agent"
    restart: ClassVar[Literal["in_place", "whole_job"]] = "whole_job"

    def check(self) -> None:
        line = paths.command(self.spec["argv"], self.setting.folder, Path("/"))
        if shutil.which(line[0]) is None:
            raise UserError(f"the command {line[0]!r} cannot be found", "check its name, or install it")
        for word, given in zip(line[1:], self.spec["argv"][1:], strict=True):
            if given.endswith(".py") and not given.startswith("-") and not Path(word).is_file():
                raise UserError(
                    f"there is no script {given!r}",
                    f"paths start at the current folder or at {self.setting.folder}",
                )
        _folder(self.spec.get("cwd"), self.setting.folder)

    def files(self) -> list[Path]:
        line = paths.command(self.spec["argv"], self.setting.folder, Path("/"))
        return [Path(word) for word in line[1:] if Path(word).is_file()]

    def start(self, launch: Launch) -> Running:
        line = paths.command(self.spec["argv"], self.setting.folder, launch.work)
        output = Output(launch.stdout, launch.stderr)
        return contained.start(line, self._env(launch), self._cwd(), output)

    def start_on(self, post: Post, launch: Launch) -> Running:
        words: dict[str, object] = {
            "node_rank": post.index,
            "nnodes": post.nodes,
            "nproc_per_node": post.per_node,
            "master_addr": post.address,
            "master_port": post.port,
        }
        words["python"] = post.cluster.python
        argv = [paths.replaced(word, words) for word in self.spec["argv"]]
        line = paths.command(argv, self.setting.folder, launch.work)
        line[0] = post.cluster.program(argv[0], line[0])
        output = Output(launch.stdout, launch.stderr)
        return post.cluster.start(post.index, line, self._env(launch), self._cwd(), output)

    def _env(self, launch: Launch) -> dict[str, str]:
        given = paths.environment(self.spec.get("env") or {}, self.setting.folder, launch.work)
        return {**launch.env, **given}

    def _cwd(self) -> Path | None:
        return _folder(self.spec.get("cwd"), self.setting.folder)


def _folder(name: str | None, folder: Path) -> Path | None:
    if name is None:
        return None
    path = folder / name
    if not path.is_dir():
        raise UserError(
            f"the target's folder {path} is not there", "check `cwd:`; it starts at the suite's folder"
        )
    return path
