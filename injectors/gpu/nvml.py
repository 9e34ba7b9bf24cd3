"""NVML by nvidia-ml-py: one session around each act, devices by index or UUID, and errors in our own words.

Which library: `TORCH_CHAOS_NVML` (a path), else what the dynamic loader finds as `libnvidia-ml.so.1`. The
path that was loaded goes into the undo record, so that an undo in another process reaches the same library.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from injectors.fault import FaultError

VARIABLE = "TORCH_CHAOS_NVML"
STAND_IN_XID = "torch_chaos_stand_in_xid"
"""A function that only a stand-in for the library has, and by which it is known."""
INSTALL = "pip install 'torch-chaos[gpu]'"


@dataclass(frozen=True)
class Process:
    """A process with a context on a device; `used_bytes` is 0 where the driver does not say."""

    pid: int
    used_bytes: int


@dataclass(frozen=True)
class Power:
    """Limits of a device in milliwatts."""

    limit_mw: int
    default_mw: int
    min_mw: int
    max_mw: int
    enforced_mw: int


class Device:
    """One device within an open session. Every call raises FaultError where NVML refuses it."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self.handle = handle
        self.uuid = str(self._call("nvmlDeviceGetUUID"))
        self.index = int(self._call("nvmlDeviceGetIndex"))
        self.name = str(self._call("nvmlDeviceGetName"))

    def _call(self, function: str, *args: Any) -> Any:
        try:
            return getattr(self._nvml, function)(self.handle, *args)
        except self._nvml.NVMLError as error:
            raise FaultError(f"{function}: {error}\n  mend: {_mend(self._nvml, error)}") from None

    def __str__(self) -> str:
        return f"device {self.index} ({self.name}, {self.uuid})"

    def clock_mhz(self) -> int:
        """What the graphics clock runs at now."""
        return int(self._call("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_GRAPHICS))

    def max_clock_mhz(self) -> int:
        """The highest graphics clock of the device."""
        return int(self._call("nvmlDeviceGetMaxClockInfo", self._nvml.NVML_CLOCK_GRAPHICS))

    def clock_reasons(self) -> int:
        """NVML's bit mask of what holds the clock down."""
        return int(self._call("nvmlDeviceGetCurrentClocksEventReasons"))

    def supported_clocks_mhz(self) -> list[int]:
        """Graphics clocks that the device can be locked to, at its highest memory clock; highest first."""
        memory = self._call("nvmlDeviceGetSupportedMemoryClocks")
        if not memory:
            return []
        clocks = self._call("nvmlDeviceGetSupportedGraphicsClocks", max(memory))
        return sorted((int(clock) for clock in clocks), reverse=True)

    def lock_clock(self, clock_mhz: int) -> None:
        """Lock the graphics clock to one value."""
        self._call("nvmlDeviceSetGpuLockedClocks", clock_mhz, clock_mhz)

    def unlock_clock(self) -> None:
        """Lift any lock of the graphics clock."""
        self._call("nvmlDeviceResetGpuLockedClocks")

    def power(self) -> Power:
        """The power limits."""
        low, high = self._call("nvmlDeviceGetPowerManagementLimitConstraints")
        return Power(
            int(self._call("nvmlDeviceGetPowerManagementLimit")),
            int(self._call("nvmlDeviceGetPowerManagementDefaultLimit")),
            int(low),
            int(high),
            int(self._call("nvmlDeviceGetEnforcedPowerLimit")),
        )

    def limit_power(self, limit_mw: int) -> None:
        """Set the power limit."""
        self._call("nvmlDeviceSetPowerManagementLimit", limit_mw)

    def processes(self) -> list[Process]:
        """Processes that compute on the device."""
        found = self._call("nvmlDeviceGetComputeRunningProcesses")
        return [Process(int(item.pid), int(item.usedGpuMemory or 0)) for item in found]

    def memory_bytes(self) -> tuple[int, int]:
        """(free, total)."""
        memory = self._call("nvmlDeviceGetMemoryInfo")
        return int(memory.free), int(memory.total)

    def utilization_percent(self) -> int:
        """Share of the last sample period (up to a second) in which a kernel ran."""
        return int(self._call("nvmlDeviceGetUtilizationRates").gpu)


class Session:
    """NVML, initialised. Made by `session`."""

    def __init__(self, nvml: Any, library: str) -> None:
        self.nvml = nvml
        self.library = library
        """Path of the loaded library."""

    @property
    def stand_in(self) -> bool:
        """Whether the library is a stand-in for tests: it says so by a function that no driver has."""
        return hasattr(self.nvml.nvmlLib, STAND_IN_XID)

    def devices(self) -> list[Device]:
        """Every device, by index."""
        return [
            Device(self.nvml, self.nvml.nvmlDeviceGetHandleByIndex(index))
            for index in range(self.nvml.nvmlDeviceGetCount())
        ]

    def device(self, name: str) -> Device:
        """The device of an index or UUID.

        Raises:
            FaultError: there is none.
        """
        try:
            if name.isdigit():
                return Device(self.nvml, self.nvml.nvmlDeviceGetHandleByIndex(int(name)))
            return Device(self.nvml, self.nvml.nvmlDeviceGetHandleByUUID(name))
        except self.nvml.NVMLError as error:
            known = ", ".join(f"{device.index} ({device.uuid})" for device in self.devices()) or "none"
            raise FaultError(f"there is no device {name!r}: {error}\n  mend: NVML knows {known}") from None

    def provoke_xid(self, device: Device, number: int, timeout_ms: int) -> int | None:
        """Let a stand-in report an Xid, and listen for it as monitoring does.

        Returns:
            The number that arrived; None if none did in time.
        """
        nvml = self.nvml
        listener = nvml.nvmlEventSetCreate()
        try:
            nvml.nvmlDeviceRegisterEvents(device.handle, nvml.nvmlEventTypeXidCriticalError, listener)
            getattr(nvml.nvmlLib, STAND_IN_XID)(device.handle, number)
            return int(nvml.nvmlEventSetWait_v2(listener, timeout_ms).eventData)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_TIMEOUT:
                return None
            raise FaultError(f"NVML events: {error}") from None
        finally:
            nvml.nvmlEventSetFree(listener)


@contextmanager
def session(library: str = "") -> Iterator[Session]:
    """NVML for the length of a `with` block.

    Args:
        library: path of the library; "": as the module's docstring says.

    Raises:
        FaultError: nvidia-ml-py is not installed, or the library can not be loaded or initialised.
    """
    nvml = _load(library or os.environ.get(VARIABLE, ""))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise FaultError(f"NVML: {error}\n  mend: {_mend(nvml, error)}") from None
    try:
        yield Session(nvml, _path_of(nvml.nvmlLib))
    finally:
        nvml.nvmlShutdown()


def problem() -> str | None:
    """Why no device can be set through NVML here; None if one can. Looks, and changes nothing."""
    try:
        with session() as opened:
            return None if opened.devices() else "NVML knows no device"
    except FaultError as error:
        return str(error)


def _load(path: str) -> Any:
    try:
        import pynvml
    except ImportError:
        raise FaultError(f"nvidia-ml-py is not installed\n  mend: {INSTALL}") from None
    if not path:
        return pynvml
    loaded = pynvml.nvmlLib
    if loaded is None:
        # pynvml loads by name, and a name is looked up once for the whole process: a stand-in found that way
        # would be torch's library too. So the loaded object is handed over.
        try:
            pynvml.nvmlLib = ctypes.CDLL(path)
        except OSError as error:
            raise FaultError(f"{path}: {error}\n  mend: check {VARIABLE}") from None
    elif not os.path.exists(path) or not os.path.samefile(_path_of(loaded), path):
        raise FaultError(f"this process has loaded {_path_of(loaded)} and can not also use {path}")
    return pynvml


class _Place(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _path_of(library: Any) -> str:
    """The file that a loaded library came from."""
    place = _Place()
    address = ctypes.cast(library.nvmlInitWithFlags, ctypes.c_void_p)
    if not ctypes.CDLL(None).dladdr(address, ctypes.byref(place)) or not place.file:
        return str(library._name)
    return os.path.realpath(os.fsdecode(place.file))


def _mend(nvml: Any, error: Any) -> str:
    match error.value:
        case nvml.NVML_ERROR_NO_PERMISSION:
            return "run as root: the driver lets nobody else change a device"
        case nvml.NVML_ERROR_NOT_SUPPORTED:
            return (
                "none: this device or driver does not offer it (MIG instances and many consumer cards do not)"
            )
        case nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return "install the NVIDIA driver; in a container start it with the driver's libraries (--gpus)"
        case nvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return "load the NVIDIA driver"
        case nvml.NVML_ERROR_GPU_IS_LOST | nvml.NVML_ERROR_RESET_REQUIRED:
            return "the device is gone until it is reset or the machine restarted"
    return "see NVML's documentation of this call"
