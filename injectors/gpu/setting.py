"""What the faults share that change a setting of a device and put back the value read before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors import signals
from injectors.fault import Fault, FaultError, Mechanism, UndoRecord, Victim, parameter
from injectors.gpu import claim, nvml
from injectors.gpu.nvml import Device, Session
from injectors.gpu.owning import device_of

SETTLE_S = 3.0
"""How long a device may take to show what was set: NVML refreshes its readings several times a second."""

NVML_MECHANISMS = (
    Mechanism(
        name="nvml",
        fidelity="real: the driver's own setting, as `nvidia-smi` makes it",
        probe=nvml.problem,
    ),
)


@dataclass(frozen=True, kw_only=True)
class SettingFault(Fault):
    """Base of the faults that change one setting of one device."""

    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = NVML_MECHANISMS
    privileges: ClassVar[tuple[str, ...]] = ("root, for the driver changes a device for nobody else",)
    what: ClassVar[str]
    """Names the setting in the claim and in the undo record's kind, `gpu.<what>`."""

    device: str = parameter(
        "index or UUID; without it, the device that the victim computes on", kind="str", default=""
    )
    duration_s: float = parameter(
        "how long it stays set", default=30.0, unit="s", minimum=0.001, maximum=3600.0
    )

    def owned(self, session: Session, victim: Victim) -> Device:
        """The device, if the run may touch it and no other run has.

        Raises:
            FaultError: it may not.
        """
        device = device_of(session, victim, self.device)
        claim.refuse_if_taken(claim.path_for(device.uuid, self.what))
        return device

    @contextmanager
    def claimed(self, device: Device, victim: Victim) -> Iterator[None]:
        """Have the claim on the setting while it is changed, and keep it; without the change, give it back.

        Raises:
            FaultError: somebody else has the claim, or what the block raised: NVML refused, nothing was set.
        """
        path, token = claim.path_for(device.uuid, self.what), token_of(victim)
        claim.take(path, token)
        try:
            yield
        except FaultError:
            claim.give_back(path, token)
            raise

    def record(self, session: Session, device: Device, victim: Victim, **values: Any) -> UndoRecord:
        """The undo record: which device by which library, our claim, and the values read before and set."""
        data = {
            "library": session.library,
            "uuid": device.uuid,
            "claim": claim.path_for(device.uuid, self.what),
            "token": token_of(victim),
            **values,
        }
        return UndoRecord(f"gpu.{self.what}", victim.pid, victim.start_ticks, victim.fault, data)


def token_of(victim: Victim) -> str:
    """What marks a claim or a process as made by this process for one fault on one victim."""
    own = os.getpid()
    return f"{own}.{signals.start_ticks(own)}/{victim.fault}/{victim.pid}.{victim.start_ticks}"


def label(session: Session) -> str:
    """How evidence that went through a stand-in begins."""
    return "STAND-IN NVML: " if session.stand_in else ""
