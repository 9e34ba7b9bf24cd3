"""`process.exit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import Evidence, InsideFault, Victim, parameter
from injectors.process.ending import verify_gone


@dataclass(frozen=True, kw_only=True)
class ProcessExit(InsideFault):
    """Let one rank leave at once with an exit code: os._exit, no clean-up, no traceback.

    An orderly `sys.exit` is an exception; see process.exception with SystemExit.
    Proof: the kernel reports the process ended; its parent sees the code.
    Undo: none.
    """

    id: ClassVar[str] = "process.exit"
    stands_for: ClassVar[str] = (
        "a library that calls exit() on an error; with code 0, a rank that believes it is done"
    )
    does_not_certify: ClassVar[str] = "exit handlers and destructors: none of them run"
    expects: ClassVar[str | None] = "crash"

    code: int = parameter("the exit code", kind="int", default=1, minimum=0, maximum=255)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        return verify_gone(victim, timeout_s=5.0)
