"""A STAND-IN for NVML with two devices: the library is compiled here, its state lies on disk beside it."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from injectors.fault import Victim
from injectors.gpu import claim, nvml, tenant

SOURCE = Path(__file__).with_name("stand_in_nvml.c")
CUDA = Path(__file__).with_name("stand_in_cuda")
PASSING = ("contexts", "xid", "xid_number")
"""Keys that are no setting: who computes there, and what was reported."""
DEFAULTS: dict[str, Any] = {
    "max_clock_mhz": 1980,
    "idle_clock_mhz": 345,
    "busy": 0,
    "lock_min_mhz": 0,
    "lock_max_mhz": 0,
    "power_limit_mw": 700000,
    "power_default_mw": 700000,
    "power_min_mw": 200000,
    "power_max_mw": 700000,
    "memory_bytes": 80 << 30,
    "processes": "",
    "xid": 0,
    "xid_number": 0,
}


@dataclass(frozen=True)
class StandIn:
    """The library and its two devices."""

    library: Path
    uuids: tuple[str, ...]

    @property
    def state(self) -> Path:
        return Path(f"{self.library}.state")

    def set(self, key: str, value: Any, device: int = 0) -> None:
        (self.state / str(device) / key).write_text(f"{value}\n")

    def get(self, key: str, device: int = 0) -> int:
        return int((self.state / str(device) / key).read_text())

    def put(self, victim: Victim, device: int = 0, used_bytes: int = 1 << 30) -> None:
        """Let a process compute on a device."""
        self.set("processes", f"{victim.pid} {used_bytes}", device)

    def snapshot(self) -> dict[str, str]:
        """Every setting of every device, and the claims on them.

        What the library was writing when its process was killed has a dot in its name, and never came to be
        a setting.
        """
        found = {
            str(path.relative_to(self.state)): path.read_text()
            for path in sorted(self.state.glob("*/*"))
            if path.name not in PASSING and "." not in path.name
        }
        return found | dict.fromkeys(self.claims(), "claim")

    def claims(self) -> list[str]:
        folder = Path(claim.path_for(self.uuids[0], "x")).parent
        return sorted(str(path) for name in self.uuids for path in folder.glob(f"{claim.PREFIX}{name}*"))


def compile_library(folder: Path) -> Path | None:
    """The library; None where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


def fresh(library: Path) -> StandIn:
    """Two idle devices, on which nobody has set anything, with UUIDs that no other test has."""
    made = StandIn(library, (f"GPU-{uuid.uuid4()}", f"GPU-{uuid.uuid4()}"))
    shutil.rmtree(made.state, ignore_errors=True)
    for index, name in enumerate(made.uuids):
        (made.state / str(index)).mkdir(parents=True)
        for key, value in {**DEFAULTS, "uuid": name}.items():
            made.set(key, value, index)
    return made


def environment(made: StandIn) -> dict[str, str]:
    """What points a tool at the stand-ins for NVML and CUDA."""
    return {nvml.VARIABLE: str(made.library), tenant.STAND_IN: str(CUDA)}
