"""Faults of a GPU: slow, shared, full, stuck, failing."""

from __future__ import annotations

from injectors.fault import Fault
from injectors.gpu.clock_lock import GpuClockLock
from injectors.gpu.contend import GpuContend
from injectors.gpu.device_assert import GpuDeviceAssert
from injectors.gpu.mem_hog import GpuMemHog
from injectors.gpu.power_cap import GpuPowerCap
from injectors.gpu.stuck_kernel import GpuStuckKernel
from injectors.gpu.xid_sim import GpuXidSim

FAULTS: tuple[type[Fault], ...] = (
    GpuClockLock,
    GpuPowerCap,
    GpuContend,
    GpuMemHog,
    GpuStuckKernel,
    GpuDeviceAssert,
    GpuXidSim,
)
