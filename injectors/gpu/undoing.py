"""Put back what was set on a device, and end what was started beside a job. Runs in the reaper too.

What is undone is decided by what the device shows now, compared with what was set: a value of somebody else's
is left as it is, and said.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from injectors import undo
from injectors.fault import FaultError
from injectors.gpu import claim, clocks, limits, nvml, tenant
from injectors.gpu.looking import sight_of, wait_seen
from injectors.gpu.nvml import Device
from injectors.undo import Handler

SETTLE_S = 3.0


def _unlock(record: Mapping[str, Any]) -> tuple[bool, str]:
    return _restore(record, _lift)


def _uncap(record: Mapping[str, Any]) -> tuple[bool, str]:
    return _restore(record, _raise_again)


def _restore(record: Mapping[str, Any], put_back: Any) -> tuple[bool, str]:
    """Let `put_back` decide and act, if the claim says that we set something; then give the claim back."""
    data = record["data"]
    if not claim.is_ours(data["claim"], data["token"]):
        # A draft of the claim may be there: the tool died while it made it.
        claim.give_back(data["claim"], data["token"])
        return True, "nothing of ours is set: it never was, or it has been undone"
    if importlib.util.find_spec("pynvml") is None:
        undo.site_packages()
    try:
        with nvml.session(data["library"]) as session:
            done, detail = put_back(session.device(data["uuid"]), data)
    except FaultError as error:
        return False, str(error)
    if done:
        claim.give_back(data["claim"], data["token"])
    return done, detail


def _lift(device: Device, data: Mapping[str, Any]) -> tuple[bool, str]:
    set_mhz = int(data["set_mhz"])
    # A lock that was set a moment ago, just before the tool died, may not show yet: time decides, not one
    # look.
    sight = wait_seen(lambda: sight_of(device), lambda found: clocks.holds(found, set_mhz), SETTLE_S)
    match clocks.whose(sight, set_mhz):
        case clocks.Whose.SOMEBODY_ELSES:
            return (
                True,
                f"left as it is: somebody else has locked {device} since ({sight}, ours was {set_mhz})",
            )
        case clocks.Whose.NOBODYS:
            return True, f"{device} runs above our {set_mhz} MHz ({sight}): somebody has lifted the lock"
        case _:
            device.unlock_clock()
    seen = wait_seen(lambda: sight_of(device), lambda found: not clocks.is_locked(found), SETTLE_S)
    return not clocks.is_locked(seen), f"the lock of {device} was lifted: {sight} became {seen}"


def _raise_again(device: Device, data: Mapping[str, Any]) -> tuple[bool, str]:
    set_mw, before_mw = int(data["set_mw"]), int(data["before_mw"])
    now_mw = device.power().limit_mw
    match limits.whose(now_mw, set_mw, before_mw):
        case limits.Whose.SOMEBODY_ELSES:
            return True, f"left as it is: somebody else has limited {device} to {now_mw} mW since"
        case limits.Whose.AS_BEFORE:
            return True, f"{device} is limited to {now_mw} mW, as before"
        case limits.Whose.OURS:
            device.limit_power(before_mw)
    seen_mw = device.power().limit_mw
    return limits.same(seen_mw, before_mw), f"{device} was limited to {now_mw} mW, now to {seen_mw} mW"


def _end_tenant(record: Mapping[str, Any]) -> tuple[bool, str]:
    return tenant.end(str(record["data"]["token"]))


HANDLERS: Mapping[str, Handler] = {
    "gpu.clock_lock": _unlock,
    "gpu.power_cap": _uncap,
    "gpu.tenant": _end_tenant,
}
