"""Bring one fault about in a process that trains on the device, in the engine's order, and watch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from injectors import boot, signals
from injectors.agent_server import AgentServer, Reached, Report
from injectors.catalogue import get
from injectors.fault import Evidence, Fault, FaultError, UndoRecord, Victim
from injectors.gpu import tenant
from injectors.marks import MARKER
from tests.device.findings import LIMIT_S, Check, Finding

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "scripts" / "train_alone.py"
STEP = 40
START_S = 45.0
AFTER_S = 1.5
"""How long the victim trains on after the fault is gone, so that its steps can be compared."""


@dataclass
class Bench:
    """One victim with one fault.

    Args:
        check: what to bring about.
        uuid: the device, the only one that the victim sees.
        run: the marker that the victim and all that is started for it carry.
    """

    check: Check
    uuid: str
    run: str
    _reached: threading.Event = field(default_factory=threading.Event)
    _victim: Victim | None = None
    _record: UndoRecord | None = None
    _fired: Evidence | None = None
    _moment: float = 0.0

    def strike(self) -> Finding:
        """Run the check to its end; whatever happens, victim and co-tenant are gone afterwards."""
        finding = Finding(self.check)
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="torch-chaos-device-") as name:
            folder = Path(name)
            server = AgentServer(folder / "private" / "agent", self._on_reached, self._on_report)
            server.start()
            process = self._start(folder, server)
            watch = threading.Timer(LIMIT_S, self._end, (process,))
            watch.start()
            try:
                self._watch(finding, server)
            finally:
                self._finish(finding, process)
                watch.cancel()
                server.stop()
            self._read(finding, folder)
        finding.seconds = time.monotonic() - start
        return finding

    @property
    def fault(self) -> Fault:
        return get(self.check.fault).from_params(self.check.params)

    def _start(self, folder: Path, server: AgentServer) -> subprocess.Popen[bytes]:
        planned = {
            "id": "f1",
            "name": self.check.fault,
            "where": {"rank": 0},
            "when": {"step": STEP, "phase": "optimizer"},
            "params": dict(self.check.params),
        }
        config = {
            "protocol": 1,
            "run": self.run,
            "socket": str(server.socket_path),
            "events": str(folder / "events.jsonl"),
            "observe": True,
            "faults": [planned],
        }
        boot.write_config(folder / "agent.json", config)
        plain = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "CUDA_VISIBLE_DEVICES": self.uuid,
            MARKER: self.run,
        }
        with (folder / "output.txt").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=boot.environment(folder / "agent.json", plain),
            )

    # -- from the agent

    def _on_reached(self, reached: Reached) -> str:
        if self._reached.is_set():
            return "skip"
        self._victim, self._moment = reached.victim(), time.monotonic()
        try:
            self._record = self.fault.undo_record(self._victim)
            self._fired = self.fault.inject(self._victim, reached.channel if self.fault.inside else None)
        except FaultError as error:
            self._fired = Evidence(f"refused: {error}", False)
        self._reached.set()
        return "go"

    def _on_report(self, report: Report) -> None:
        """The acts report through `inject`; what an agent says later shows in the victim's output."""

    # -- from here

    def _watch(self, finding: Finding, server: AgentServer) -> None:
        if not self._reached.wait(START_S) or self._victim is None or self._fired is None:
            return
        finding.moments["reached"] = self._moment
        finding.fired = self._fired.as_dict()
        finding.verified = self.fault.verify(self._victim, self._fired).as_dict()
        finding.moments["verified"] = time.monotonic()
        # Nothing happens that could be waited for: the fault is left in force for a while.
        time.sleep(self.check.hold_s)
        if self._record is None:
            return
        finding.undone = self.fault.undo(self._record, server.send_undo).as_dict()
        finding.moments["undone"] = time.monotonic()
        finding.undo_verified = self.fault.verify_undone(self._record).as_dict()
        time.sleep(AFTER_S)

    def _finish(self, finding: Finding, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        process.stdin.close()
        try:
            finding.exit_code = process.wait(15.0)
        except subprocess.TimeoutExpired:
            self._end(process)
            finding.exit_code = process.wait()
        if self._record is not None and finding.undone is None:
            # Only where something above was interrupted.
            self.fault.undo(self._record)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        if self._record is not None and "token" in self._record.data:
            tenant.end(str(self._record.data["token"]))

    def _read(self, finding: Finding, folder: Path) -> None:
        events = folder / "events.jsonl"
        if events.exists():
            lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
            finding.commits = [line["t"] for line in lines if line["event"] == "step.commit"]
        finding.output = (folder / "output.txt").read_text(encoding="utf-8", errors="replace")[-2000:]


def left_of(run: str) -> list[int]:
    """Processes that carry the marker of the bench and live."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid() and _carries(int(name), run):
            ticks = signals.start_ticks(int(name))
            if ticks is not None and signals.is_alive(int(name), ticks):
                found.append(int(name))
    return found


def _carries(pid: int, run: str) -> bool:
    from injectors.marks import run_of

    return run_of(pid) == run
