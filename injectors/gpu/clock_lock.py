"""`gpu.clock_lock`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Channel, Evidence, FaultError, UndoRecord, Victim, parameter
from injectors.gpu import claim, nvml
from injectors.gpu.clocks import TOLERANCE_MHZ, Sight, Whose, choose, holds, is_locked, whose
from injectors.gpu.looking import sight_of, wait_seen
from injectors.gpu.nvml import Device
from injectors.gpu.setting import SETTLE_S, SettingFault, label


@dataclass(frozen=True, kw_only=True)
class GpuClockLock(SettingFault):
    """Lock the graphics clock of one device to a share of its highest: it computes, but slowly.

    Proof: NVML reads the clock at the value set, and read another one before.
    Undo: the lock is lifted, for there was none before; repeatable. A lock that somebody else has set since
    is left as it is. NVML can not read a lock back, so what is compared is the clock at which the device
    runs.
    """

    id: ClassVar[str] = "gpu.clock_lock"
    needs: ClassVar[tuple[str, ...]] = ("gpu",)
    what: ClassVar[str] = "clock_lock"
    stands_for: ClassVar[str] = (
        "a device that throttles from heat, a bad power supply or a forgotten setting: one slow rank in a job"
    )
    does_not_certify: ClassVar[str] = (
        "throttling that comes and goes with load, a slow memory clock, nor the monitoring that should see "
        "the reason: NVML gives none for a lock"
    )

    share: float = parameter("of the highest graphics clock", default=0.5, minimum=0.1, maximum=0.95)

    def _target(self, device: Device) -> int:
        chosen = choose(device.supported_clocks_mhz(), device.max_clock_mhz(), self.share)
        if chosen + TOLERANCE_MHZ >= device.max_clock_mhz():
            raise FaultError(f"{device} has no clock below {device.max_clock_mhz()} MHz to lock to")
        return chosen

    def _free(self, device: Device) -> Sight:
        """What the clock shows now, if nobody has locked it."""
        sight = sight_of(device)
        if is_locked(sight):
            raise FaultError(
                f"{device} is locked already ({sight}), and not by this run\n"
                f"  mend: nvidia-smi -i {device.index} --reset-gpu-clocks, if the lock is not wanted"
            )
        return sight

    def undo_record(self, victim: Victim) -> UndoRecord:
        with nvml.session() as session:
            device = self.owned(session, victim)
            before = self._free(device)
            values = {"before": before.as_dict(), "set_mhz": self._target(device)}
            return self.record(session, device, victim, **values)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            with nvml.session() as session:
                device = self.owned(session, victim)
                with self.claimed(device, victim):
                    # Looked at again under the claim: what is set now was set by nobody in between.
                    before, target = self._free(device), self._target(device)
                    device.lock_clock(target)
                data = {
                    "device": device.uuid,
                    "library": session.library,
                    "stand_in": session.stand_in,
                    "before": before.as_dict(),
                    "set_mhz": target,
                }
                return Evidence(f"{label(session)}{device} locked to {target} MHz", True, data=data)
        except FaultError as error:
            return Evidence(str(error), False)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("no lock was set", False)
        target, before = int(fired.data["set_mhz"]), Sight(**fired.data["before"])
        try:
            with nvml.session(fired.data["library"]) as session:
                device = session.device(fired.data["device"])
                seen = wait_seen(lambda: sight_of(device), lambda sight: holds(sight, target), SETTLE_S)
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        data: dict[str, Any] = {"before": before.as_dict(), "seen": seen.as_dict(), "set_mhz": target}
        if holds(before, target):
            return Evidence(
                f"{prefix}the clock stood at {before.clock_mhz} MHz before already", False, data=data
            )
        return Evidence(f"{prefix}the clock reads {seen}; before: {before}", holds(seen, target), data=data)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        data, target = record.data, int(record.data["set_mhz"])
        try:
            with nvml.session(data["library"]) as session:
                device = session.device(data["uuid"])
                seen = wait_seen(lambda: sight_of(device), lambda sight: not is_locked(sight), SETTLE_S)
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        ours = claim.is_ours(data["claim"], data["token"])
        if not is_locked(seen):
            return Evidence(f"{prefix}no lock shows: {seen}", not ours, data=seen.as_dict())
        foreign = whose(seen, target) is Whose.SOMEBODY_ELSES
        what = "somebody else's lock, left as it is" if foreign else "still locked"
        return Evidence(f"{prefix}{what}: {seen}", foreign and not ours, data=seen.as_dict())
