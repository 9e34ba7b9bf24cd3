"""Target `recovery`: a workload under the runtime that ships with this toolkit.

All launches of a run come from one template process that has torch imported already: an import per scenario
would cost more than the scenario.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from chaos.clusters.base import Output, close_all
from chaos.errors import TargetFailed, UserError
from chaos.targets import paths
from chaos.targets.base import End, Launch, Post, Running, Setting, Target
from injectors import boot

if TYPE_CHECKING:
    from recovery.launch import Job, Zygote

T = TypeVar("T")


def _or_failed(what: str, call: Callable[..., T], *args: object) -> T:
    """A call into the launcher, its errors turned into ours."""
    try:
        return call(*args)
    except Exception as error:
        raise TargetFailed(f"{what}: {error}", "see `torch-chaos doctor`") from error


class Template:
    """The run's template process, started at the first use or ahead of it. One a run."""

    def __init__(self, env: Mapping[str, str], preload: Sequence[str] = ()) -> None:
        self._env, self._preload = env, tuple(preload)
        self._zygote: Zygote | None = None

    def get(self) -> Zygote:
        """The template, ready to launch.

        Raises:
            TargetFailed: it could not be started, for example because there is no torch.
        """
        if self._zygote is None:
            # Imported here: the launcher is needed by runs only, and the command line must start fast.
            from recovery.launch import Zygote

            # The agent's boot folder is there from the start; each launch then names its own configuration.
            env = boot.environment("", self._env)
            del env[boot.VARIABLE]
            self._zygote = _or_failed("the template process did not start", Zygote.start, env, self._preload)
        return self._zygote

    def stop(self) -> None:
        """End it. May be repeated."""
        zygote, self._zygote = self._zygote, None
        if zygote is not None:
            zygote.stop()


class RecoveryTarget(Target):
    """A training script that uses `recovery`, launched with `python -m recovery.launch`'s own flags."""

    step_source: ClassVar[Literal["recovery", "agent"]] = "recovery"
    restart: ClassVar[Literal["in_place", "whole_job"]] = "in_place"

    def __init__(self, setting: Setting, template: Template) -> None:
        super().__init__(setting)
        self._template = template

    def check(self) -> None:
        paths.workload(self.spec["workload"], self.setting.folder)
        for name in self.spec.get("sources") or ():
            if not (self.setting.folder / name).is_file():
                raise UserError(f"there is no source {name!r}", f"paths start at {self.setting.folder}")

    def files(self) -> list[Path]:
        import recovery

        # What the runtime computes is part of what a twin is compared with.
        runtime = sorted(Path(recovery.__path__[0]).rglob("*.py"))
        named = [self.setting.folder / name for name in self.spec.get("sources") or ()]
        return [paths.workload(self.spec["workload"], self.setting.folder), *named, *runtime]

    def prepare(self) -> None:
        self._template.get()

    def start(self, launch: Launch) -> Running:
        return self._launch(launch, self._args(launch, self.spec["world"]), ())

    def start_on(self, post: Post, launch: Launch) -> Running:
        where = ["--nnodes", str(post.nodes), "--node-rank", str(post.index)]
        where += ["--rdzv-endpoint", f"{post.address}:{post.port}"]
        args = [*where, *self._args(launch, post.per_node)]
        launch = replace(launch, env={**launch.env, "RECOVERY_TOKEN_FILE": str(post.token)})
        if post.cluster.own_pids:
            # Another pid and mount namespace: a warm process of this host cannot serve it.
            line = [post.cluster.python, "-m", "recovery.launch", *args]
            output = Output(launch.stdout, launch.stderr)
            return post.cluster.start(post.index, line, self._env(launch), self._cwd(), output)
        namespaces = post.cluster.namespaces(post.index)
        try:
            return self._launch(launch, args, namespaces)
        finally:
            close_all(namespaces)

    def _args(self, launch: Launch, per_node: int) -> list[str]:
        spec = self.spec
        args = ["--nproc-per-node", str(per_node), "--seed", str(launch.seed)]
        if spec.get("spares") is not None:
            args += ["--spares", str(spec["spares"])]
        if spec.get("max_restarts") is not None:
            args += ["--max-restarts", str(spec["max_restarts"])]
        return [
            *args,
            str(paths.workload(spec["workload"], self.setting.folder)),
            *self.script_args(launch.work),
        ]

    def _env(self, launch: Launch) -> dict[str, str]:
        given = paths.environment(self.spec.get("env") or {}, self.setting.folder, launch.work)
        told = {"RECOVERY_EVENTS": str(launch.events), "RECOVERY_DIGEST": "1" if launch.digest else "0"}
        return {**launch.env, **given, **told}

    def _cwd(self) -> Path:
        return self.setting.folder / self.spec["cwd"] if self.spec.get("cwd") else Path.cwd()

    def _launch(self, launch: Launch, args: list[str], namespaces: Sequence[int]) -> Running:
        zygote = self._template.get()
        # Named only where there are any: what has no nodes needs nothing that knows of them.
        more = (tuple(namespaces),) if namespaces else ()
        job = _or_failed(
            "the job did not start",
            zygote.launch,
            args,
            self._env(launch),
            str(self._cwd()),
            launch.stdout,
            launch.stderr,
            *more,
        )
        return _Job(job, [sys.executable, "-m", "recovery.launch", *args])

    def script_args(self, work: Path) -> list[str]:
        """The script's arguments. Shipped workloads are told how long to train; a user's own says it in
        `args`."""
        given = [paths.filled(word, self.setting.folder, work) for word in self.spec.get("args") or []]
        given = [word.replace("{steps}", str(self.spec["steps"])) for word in given]
        if paths.is_shipped(self.spec["workload"]) and "--steps" not in given:
            given = ["--steps", str(self.spec["steps"]), *given]
        return given


class _Job(Running):
    def __init__(self, job: Job, argv: list[str]) -> None:
        self._job = job
        self.pid = job.pid
        self.argv = argv
        try:
            self._pidfd = os.pidfd_open(job.pid)
        except ProcessLookupError:
            # It has ended already: a descriptor that is always readable says the same.
            self._pidfd = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)

    @property
    def end_fd(self) -> int:
        return self._pidfd

    def poll(self) -> End | None:
        code = self._job.poll()
        if code is None:
            return None
        return End(code) if code >= 0 else End(None, -code)

    def stop(self) -> None:
        if self._job.poll() is None:
            self._job.kill()
            self._job.wait(5.0)
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
