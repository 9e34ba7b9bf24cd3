"""`gpu.device_assert`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from injectors.fault import InsideFault, Mechanism
from injectors.gpu import cuda


@dataclass(frozen=True, kw_only=True)
class GpuDeviceAssert(InsideFault):
    """Fail an assertion in a kernel of the victim: its CUDA context is lost, and the error is raised.

    Proof: the error that CUDA itself gives, and the failure of a second, sound operation after it.
    Undo: none; nothing but a new process has a working context again.
    """

    id: ClassVar[str] = "gpu.device_assert"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = cuda.ASSERT
    needs: ClassVar[tuple[str, ...]] = ("gpu",)
    stands_for: ClassVar[str] = (
        "an index out of range, a label that is not a class, an illegal access: the process lives, its "
        "device context does not, so only a new process helps"
    )
    does_not_certify: ClassVar[str] = "a device that is lost for every process (gpu.xid_sim tells of one)"
    expects: ClassVar[str | None] = "exception"
