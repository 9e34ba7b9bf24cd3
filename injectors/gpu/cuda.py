"""Whether CUDA can be used here, found out without importing torch or touching a device."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

from injectors.fault import Mechanism
from injectors.gpu import nvml, tenant


def problem() -> str | None:
    """Why torch can not compute on a device of this machine; None if it should. Changes nothing."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "torch is not installed"
    version = Path(spec.origin).with_name("version.py")
    if version.exists() and re.search(r"^cuda\b[^=]*= None", version.read_text(), re.MULTILINE):
        return "this torch was built without CUDA; get one from https://pytorch.org that has it"
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return "there is no NVIDIA device on this machine (no /dev/nvidia0)"
    return None


def shared_problem() -> str | None:
    """Why no process can be put beside a victim: that needs CUDA, and NVML to see the device."""
    return (None if os.environ.get(tenant.STAND_IN) else problem()) or nvml.problem()


INSIDE = (
    Mechanism(
        name="kernel",
        fidelity="real: a kernel in the victim's own stream, compiled by torch at run time",
        probe=problem,
    ),
    Mechanism(
        name="sleep",
        fidelity="real: torch's own sleeping kernel, where it can not compile; it can not be ended early",
        probe=problem,
    ),
)
SHARED = (
    Mechanism(
        name="process",
        fidelity="real: a process of its own on the victim's device",
        probe=shared_problem,
    ),
)
ASSERT = (
    Mechanism(
        name="assert",
        fidelity="real: an assertion that fails in a kernel of the victim",
        probe=problem,
    ),
)
