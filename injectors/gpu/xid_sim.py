"""`gpu.xid_sim`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.agent.act_gpu import XIDS
from injectors.fault import Channel, Evidence, FaultError, InsideFault, Mechanism, Victim, parameter
from injectors.gpu import nvml
from injectors.gpu.owning import device_of

EVENT_MS = 2000


def _no_stand_in() -> str | None:
    try:
        with nvml.session() as session:
            if session.stand_in:
                return None
            return "the real NVML can not be told to report an Xid; only a stand-in for tests can"
    except FaultError as error:
        return str(error)


@dataclass(frozen=True, kw_only=True)
class GpuXidSim(InsideFault):
    """SIMULATED Xid: raise the error that torch would, and report an NVML event where a stand-in can.

    No device fails.
    Proof: the agent says which error it raises, marked as simulated; the event, where there is one, comes to
    a listener of ours by NVML's own calls.
    Undo: none; nothing was changed.
    """

    id: ClassVar[str] = "gpu.xid_sim"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (
        Mechanism(
            name="event and error",
            fidelity="simulated: an event of a stand-in NVML, and an error",
            probe=_no_stand_in,
        ),
        Mechanism(name="error", fidelity="simulated: the error alone, no NVML event", probe=lambda: None),
    )
    stands_for: ClassVar[str] = (
        "a device that reports an Xid and fails the process: memory errors, a lost bus, a dead NVLink"
    )
    does_not_certify: ClassVar[str] = (
        "anything about a device: it is sound, other processes go on, the kernel log is silent; nor the "
        "health checks that read NVML, unless they run against the stand-in"
    )
    expects: ClassVar[str | None] = "exception"

    xid: int = parameter(
        f"the number: {', '.join(map(str, XIDS))}", kind="int", default=79, minimum=13, maximum=119
    )
    device: str = parameter(
        "index or UUID of the stand-in's device; without it, the one that the victim computes on",
        kind="str",
        default="",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.xid not in XIDS:
            known = ", ".join(map(str, XIDS))
            raise FaultError(f"{self.id}: xid={self.xid} is not known\n  mend: one of {known}")

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        # The event first: the driver reports before the process that it hits can say anything.
        event = self._event(victim)
        raised = super().inject(victim, channel)
        data = {**raised.data, "simulated": True, "nvml_event": event}
        return Evidence(f"{raised.what}; NVML event: {event['what']}", raised.proven, "agent", data)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return fired or Evidence("the agent reported nothing", False, "agent")
        event = fired.data["nvml_event"]
        arrived = event["sent"] == event["arrived"]
        return Evidence(f"SIMULATED: {fired.what}", arrived, "agent", fired.data)

    def _event(self, victim: Victim) -> dict[str, Any]:
        """Report the Xid through a stand-in and listen for it by NVML's own calls."""
        try:
            with nvml.session() as session:
                if not session.stand_in:
                    return {"sent": None, "arrived": None, "what": "none, the real NVML can not be told to"}
                device = device_of(session, victim, self.device)
                arrived = session.provoke_xid(device, self.xid, EVENT_MS)
                what = f"STAND-IN NVML reported Xid {arrived} of {device}"
                return {"sent": self.xid, "arrived": arrived, "device": device.uuid, "what": what}
        except FaultError as error:
            return {"sent": None, "arrived": None, "what": f"none: {error}"}
