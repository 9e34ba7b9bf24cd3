"""Target `attached`: a job that somebody else has started. It is neither started nor stopped here."""

from __future__ import annotations

from chaos.clusters import processes
from chaos.errors import Refused
from chaos.targets.base import Launch, Running, Target


class AttachedTarget(Target):
    """Stands in a plan for a job that runs already; `chaos.attach` does the rest."""

    def check(self) -> None:
        gone = [pid for pid, ticks in self.spec["pids"] if not processes.is_alive(pid, ticks)]
        if gone:
            named = ", ".join(map(str, gone))
            raise Refused(
                f"the job of this plan is gone: pid {named} has ended",
                "attach to another one: torch-chaos attach PID --fault NAME --rank N",
            )

    def start(self, launch: Launch) -> Running:
        raise AssertionError("a job that is attached to is not started by the tool")
