"""Reference twins: the same training without faults, run once and kept by content hash."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.errors import TargetFailed
from chaos.history import History
from chaos.plan import PlannedScenario, canonical
from chaos.report.stored import HISTORY
from chaos.targets.base import End


class Twins:
    """The twins of one run.

    Args:
        folder: `twins/` in the run's folder; every report is complete in itself.
        cache: a folder shared by runs, None to keep nothing beyond this run.
        sources: content hash of each target's files as they are now, by the target's canonical JSON: the plan
            that is run may be older than they are.
    """

    def __init__(self, folder: Path, cache: Path | None, sources: Mapping[str, str]) -> None:
        self.folder, self.cache, self._sources = folder, cache, sources
        self._known: dict[str, History | TargetFailed] = {}

    def get(self, scenario: PlannedScenario, run: Callable[[Path], tuple[Path, End | None]]) -> History:
        """The history of a scenario's twin; `run` makes it if no one has yet.

        Args:
            scenario: whose twin.
            run: runs the target without faults in the folder given; returns history and end.

        Raises:
            TargetFailed: the target does not even work without faults. Said again for each scenario of it.
        """
        twin = scenario.twin
        if twin not in self._known:
            self._known[twin] = self._find(scenario, run)
        known = self._known[twin]
        if isinstance(known, TargetFailed):
            raise known
        return known

    def _find(
        self, scenario: PlannedScenario, run: Callable[[Path], tuple[Path, End | None]]
    ) -> History | TargetFailed:
        here = self.folder / scenario.twin
        sources = self._sources.get(canonical(scenario.target), "")[:8]
        name = f"{scenario.twin}-{sources}-{machine()}"
        kept = None if self.cache is None else self.cache / name / HISTORY
        if kept is not None and kept.is_file():
            here.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(kept, here / HISTORY)
            return History.load(here / HISTORY)
        try:
            path, end = run(here)
        except TargetFailed as error:
            return error
        history = History.load(path)
        if end is None or not end.well or not history.commits():
            return TargetFailed(
                f"the target fails without any fault: {how(end, here)}", f"run it by hand; output in {here}"
            )
        if kept is not None:
            _keep(path, kept)
        return history


def _keep(path: Path, kept: Path) -> None:
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(path, part)
        os.replace(part, kept)
    except OSError:
        # A cache that cannot be written only costs time.
        pass


def machine() -> str:
    """Tells machines apart whose processors may round differently: 8 hex digits."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        kept = sorted(
            {line for line in text.splitlines() if line.startswith(("model name", "flags", "Features"))}
        )
    except OSError:
        kept = []
    return hashlib.sha256("\n".join([os.uname().machine, *kept]).encode()).hexdigest()[:8]


def how(end: End | None, folder: Path) -> str:
    """How a target ended, with the last line it wrote to stderr."""
    if end is None:
        ended = "it did not end in time"
    else:
        ended = f"exit code {end.code}" if end.code is not None else f"signal {end.signal}"
        if end.well:
            ended += ", but it committed no step"
    try:
        lines = (folder / "stderr.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{ended}: {last[:200]}" if last else ended
