"""`process.oom`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.agent.acts import ALLOCATORS
from injectors.fault import InsideFault, parameter


@dataclass(frozen=True, kw_only=True)
class ProcessOom(InsideFault):
    """Let one rank run out of memory: a real allocation fails, and its error is raised in the training code.

    The address space is limited to what is used plus `headroom_bytes`, memory is taken until the allocator
    gives up, all of it is given back, the limit is lifted, and the allocator's own error is raised.
    Proof: the agent reports the bytes taken and the allocator's error.
    Undo: none; the limit is lifted before the error is raised.
    """

    id: ClassVar[str] = "process.oom"
    stands_for: ClassVar[str] = (
        "a batch too long, a leak, a cache that grew: memory fails and the process lives"
    )
    does_not_certify: ClassVar[str] = (
        "the kernel's out-of-memory killer, which gives no error (process.kill), nor the memory of a GPU"
    )
    expects: ClassVar[str | None] = "exception"

    allocator: str = parameter("whose allocation fails", kind="str", default="torch", choices=ALLOCATORS)
    headroom_bytes: int = parameter(
        "how much is still granted",
        kind="int",
        default=64 << 20,
        unit="bytes",
        minimum=1 << 20,
        maximum=1 << 32,
    )
