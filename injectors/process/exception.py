"""`process.exception`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.agent.acts import ERRORS
from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class ProcessException(InsideFault):
    """Raise an exception in the training code of one rank.

    It is raised where the agent stands: at the start of the forward, of the backward, of the optimizer's
    step, or where a collective is issued; never inside the recovery system's own code.
    Proof: the agent says which exception it is about to raise; what the code makes of it shows in the run.
    Undo: none; user code may catch it.
    """

    id: ClassVar[str] = "process.exception"
    stands_for: ClassVar[str] = (
        "a bug in user code, a bad batch, an error of the device that torch turns into an exception"
    )
    does_not_certify: ClassVar[str] = "errors that leave a device context unusable: here the process is sound"
    expects: ClassVar[str | None] = "exception"

    error: str = parameter("the exception's class", kind="str", default="RuntimeError", choices=ERRORS)
