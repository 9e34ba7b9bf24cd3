"""Which device a fault is about, and whether the run may touch it."""

from __future__ import annotations

from injectors.fault import FaultError, Victim
from injectors.gpu.nvml import Device, Session
from injectors.marks import run_of


def device_of(session: Session, victim: Victim, name: str) -> Device:
    """The device that is meant, if the run may touch it.

    Args:
        name: index or UUID; "": the one that the victim computes on.

    Raises:
        FaultError: there is no such device, the victim is on none or on several, or somebody else's process
            computes on it.
    """
    device = session.device(name) if name else _device_with(session, victim)
    refuse_strangers(device, victim)
    return device


def _device_with(session: Session, victim: Victim) -> Device:
    found = [
        device
        for device in session.devices()
        if any(process.pid == victim.pid for process in device.processes())
    ]
    if len(found) == 1:
        return found[0]
    which = ", ".join(str(device) for device in found) or "no device"
    raise FaultError(
        f'pid {victim.pid} computes on {which}, as NVML sees it\n  mend: name it (with: {{device: "0"}}), by '
        "index or UUID"
    )


def refuse_strangers(device: Device, victim: Victim) -> None:
    """Refuse a device on which a process computes that is not of the victim's run.

    Raises:
        FaultError: names the processes.
    """
    run = victim.run or run_of(victim.pid)
    own = {victim.pid, *(pid for pid, _ in victim.job)}
    strangers = [
        process.pid
        for process in device.processes()
        if process.pid not in own and not (run and run_of(process.pid) == run)
    ]
    if strangers:
        raise FaultError(
            f"{device}: processes that are not of this run compute on it: {', '.join(map(str, strangers))}\n"
            "  mend: use a device that the run has for itself"
        )
