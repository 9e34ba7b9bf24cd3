"""`store.stale_key`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from injectors.fault import Channel, Evidence, Fault, FaultError, Mechanism, UndoRecord, Victim, parameter
from injectors.store import replayed, wire
from injectors.store.host import find
from injectors.store.hosted import host_is_gone, told


def _nothing_missing() -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class StoreStaleKey(Fault):
    """Put keys of the TCPStore back to values that they had earlier in the job, as a stale read shows them.

    The earlier values are those that the rank's agent recorded when its default group was made: in the life
    of the job before this one where it has restarted (place it at `phase: regroup`), else at the start of
    this life. A key that has its earlier value anyway is left alone.
    Proof: the key is read before and after, and once more over another connection.
    Undo: the value that was there comes back, unless someone has set the key since.
    """

    id: ClassVar[str] = "store.stale_key"
    has_undo: ClassVar[bool] = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (
        Mechanism(
            name="a client of the store",
            fidelity="the store itself delivers the earlier value, to every client",
            probe=_nothing_missing,
        ),
    )
    stands_for: ClassVar[str] = (
        "a new attempt that reads addresses of the one before from a shared store (pytorch 135712), a key "
        "of a barrier used a second time, a replica of the coordinator that lags behind"
    )
    does_not_certify: ClassVar[str] = "a store that loses keys or delivers them torn"
    expects: ClassVar[str | None] = "collective_error"
    needs_run: ClassVar[str] = "earlier values of the keys, which the agent records when a rank starts"

    key: str = parameter("which keys, as a shell pattern (default_pg/*)", kind="str", default="*")

    def undo_record(self, victim: Victim) -> UndoRecord:
        host = find(victim)
        self._earlier(victim)
        data = {**host.as_dict(), "tag": _tag(victim)}
        return UndoRecord("store.stale_key", host.pid, host.start_ticks, victim.fault, data)

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            host = find(victim)
            recording = self._earlier(victim)
        except FaultError as error:
            return Evidence(str(error), False)
        earlier = recording.matching(self.key)
        try:
            changed = replayed.replay(host, earlier, _tag(victim))
        except OSError as error:
            return told(host, victim, Evidence(f"its store could not be asked: {error}", False))
        data = {"from_generation": recording.generation, "changed": changed}
        if not changed:
            what = f"all of {len(earlier)} keys still have the value of generation {recording.generation}"
            return told(host, victim, Evidence(what, False, data=data))
        # Over another connection, and now: the job goes on before the proof, and may set the keys at once.
        stale = _still_stale(host.as_dict(), changed)
        what = f"{len(changed)} keys set back to generation {recording.generation}, {changed[0]['key']} first"
        return told(host, victim, Evidence(what, bool(stale), data={**data, "stale": stale}))

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        stale = list(fired.data.get("stale", ())) if fired is not None else []
        if fired is None or not stale:
            return Evidence("no key was read with an earlier value", False)
        now = _still_stale(fired.data, fired.data["changed"])
        what = f"{len(stale)} keys had their earlier value over another connection, {len(now)} still have it"
        return Evidence(what, True, data={"stale": stale, "still": now})

    def verify_undone(self, record: UndoRecord) -> Evidence:
        if host_is_gone(record):
            return Evidence("the store is gone with its host, and every key of it", True)
        data = record.data
        try:
            left = replayed.keys_of_ours(record.pid, data["address"], data["port"], data["tag"])
        except OSError as error:
            return Evidence(f"the store could not be asked: {error}", host_is_gone(record))
        return Evidence(f"{len(left)} keys of ours are in the store", not left, data={"left": left})

    def _earlier(self, victim: Victim) -> replayed.Recording:
        """What there is to replay.

        Raises:
            FaultError: nothing: no key was recorded, or none matches.
        """
        recording = replayed.recorded(victim)
        if not recording.matching(self.key):
            known = ", ".join(sorted(recording.keys)[:4])
            raise FaultError(f"no recorded key matches {self.key!r}\n  mend: one of the job's keys: {known}")
        return recording


def _still_stale(host: Mapping[str, Any], changed: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys that have the replayed value, read over a connection of its own; none if the store is gone."""
    calls = [("get", entry["key"]) for entry in changed]
    try:
        seen = wire.ask(host["host"], host["address"], host["port"], calls)
    except wire.StoreError:
        return []
    return [e["key"] for e, value in zip(changed, seen, strict=True) if value == bytes.fromhex(e["replayed"])]


def _tag(victim: Victim) -> str:
    return f"{victim.fault}/{victim.pid}.{victim.start_ticks}"
