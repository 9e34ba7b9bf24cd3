from __future__ import annotations

from injectors.fault import Fault
from injectors.host.clock import HostClock
from injectors.host.cpu_throttle import HostCpuThrottle
from injectors.host.memory import HostMemory

FAULTS: tuple[type[Fault], ...] = (HostCpuThrottle, HostMemory, HostClock)
