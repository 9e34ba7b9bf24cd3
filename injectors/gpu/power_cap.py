"""`gpu.power_cap`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from injectors.fault import Channel, Evidence, FaultError, UndoRecord, Victim, parameter
from injectors.gpu import claim, nvml
from injectors.gpu.limits import Whose, same, target_mw, whose
from injectors.gpu.looking import wait_seen
from injectors.gpu.nvml import Device, Power
from injectors.gpu.setting import SETTLE_S, SettingFault, label


@dataclass(frozen=True, kw_only=True)
class GpuPowerCap(SettingFault):
    """Lower the power limit of one device: under load its clocks fall, as they do when power is short.

    Proof: NVML reads the limit set back, and the limit that the device enforces is no higher.
    Undo: the limit read before is set again; repeatable. A limit that somebody else has set since is left.
    """

    id: ClassVar[str] = "gpu.power_cap"
    needs: ClassVar[tuple[str, ...]] = ("gpu",)
    what: ClassVar[str] = "power_cap"
    stands_for: ClassVar[str] = (
        "a rack short of power, a failed supply, a cap left from another job: slow only under load"
    )
    does_not_certify: ClassVar[str] = (
        "that the rank was slow: a load below the limit does not feel it (compare the steps' times)"
    )

    share: float = parameter(
        "where the limit lies: 0 the lowest that the device takes, 1 its default",
        default=0.0,
        minimum=0.0,
        maximum=0.95,
    )

    def _free(self, device: Device) -> tuple[Power, int]:
        """The limits as they are and the one to set, if nobody has changed the default."""
        power = device.power()
        if not same(power.limit_mw, power.default_mw):
            raise FaultError(
                f"{device} is capped at {power.limit_mw} mW already (default {power.default_mw}), and not by "
                f"this run\n  mend: nvidia-smi -i {device.index} --power-limit {power.default_mw // 1000}, "
                "if the cap is not wanted"
            )
        target = target_mw(power.min_mw, power.default_mw, self.share)
        if target is None:
            raise FaultError(f"{device} takes no limit below its default of {power.default_mw} mW")
        return power, target

    def undo_record(self, victim: Victim) -> UndoRecord:
        with nvml.session() as session:
            device = self.owned(session, victim)
            before, target = self._free(device)
            return self.record(session, device, victim, before_mw=before.limit_mw, set_mw=target)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            with nvml.session() as session:
                device = self.owned(session, victim)
                with self.claimed(device, victim):
                    # Looked at again under the claim: what is set now was set by nobody in between.
                    before, target = self._free(device)
                    device.limit_power(target)
                data = {
                    "device": device.uuid,
                    "library": session.library,
                    "stand_in": session.stand_in,
                    "before": asdict(before),
                    "set_mw": target,
                }
                return Evidence(f"{label(session)}{device} limited to {target} mW", True, data=data)
        except FaultError as error:
            return Evidence(str(error), False)

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("no limit was set", False)
        target = int(fired.data["set_mw"])

        def in_force(power: Power) -> bool:
            return same(power.limit_mw, target) and power.enforced_mw <= power.limit_mw

        try:
            with nvml.session(fired.data["library"]) as session:
                seen = wait_seen(session.device(fired.data["device"]).power, in_force, SETTLE_S)
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        what = f"{prefix}the limit reads {seen.limit_mw} mW, enforced {seen.enforced_mw} mW, set {target} mW"
        return Evidence(what, in_force(seen), data=asdict(seen))

    def verify_undone(self, record: UndoRecord) -> Evidence:
        data = record.data
        try:
            with nvml.session(data["library"]) as session:
                seen = session.device(data["uuid"]).power()
                prefix = label(session)
        except FaultError as error:
            return Evidence(str(error), False)
        owner = whose(seen.limit_mw, int(data["set_mw"]), int(data["before_mw"]))
        words = {
            Whose.OURS: "ours still",
            Whose.AS_BEFORE: "as before",
            Whose.SOMEBODY_ELSES: "somebody else's, left as it is",
        }
        undone = owner is not Whose.OURS and not claim.is_ours(data["claim"], data["token"])
        return Evidence(
            f"{prefix}the limit reads {seen.limit_mw} mW: {words[owner]}", undone, data=asdict(seen)
        )
