"""What the faults of a file at rest have in common: which file, and how its damage is seen and undone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from injectors.fault import (
    Channel,
    Evidence,
    Fault,
    FaultError,
    Mechanism,
    UndoRecord,
    Victim,
    duration,
    parameter,
)
from injectors.storage import keeping

PICKS = ("newest", "oldest")
IN_PLACE = Mechanism(
    name="write in place",
    fidelity="real: the file's bytes are changed, whoever reads it and however",
    probe=lambda: None,
)


@dataclass(frozen=True, kw_only=True)
class RestingFault(Fault):
    """Base of the faults that damage a file which nobody is writing, and restore it byte for byte."""

    has_undo: ClassVar[bool] = True
    needs_run: ClassVar[str] = "a folder of the job's own, outside which no file may be touched"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = (IN_PLACE,)
    expects: ClassVar[str | None] = None

    path: str = parameter(
        "which file, as a pattern relative to the job's work folder", kind="str", default="checkpoints/*"
    )
    pick: str = parameter("which of several", kind="str", default="newest", choices=PICKS)
    duration_s: float | None = duration("how long it stays damaged", default=30.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.path or self.path.startswith("/") or ".." in self.path.split("/"):
            raise FaultError(
                f"{self.id}: path={self.path!r} is not inside the job's work folder\n"
                "  mend: a pattern relative to {work}, for example checkpoints/*.pt"
            )

    def undo_record(self, victim: Victim) -> UndoRecord:
        file = self.chosen(victim)
        folder = keeping.folder_for(Path(victim.work), victim.run, victim.fault)
        if folder.exists():
            raise FaultError(f"{folder} is there already\n  mend: `torch-chaos rollback`, or remove it")
        # Which file it is in the end stands in the note beside the copy; this one is for the reader.
        data = {"kept": str(folder), "file": str(file)}
        return UndoRecord("storage.kept", victim.pid, victim.start_ticks, victim.fault, data)

    def chosen(self, victim: Victim) -> Path:
        """The file meant.

        Raises:
            FaultError: no such file, or it lies outside the job's work folder (a link leads out of it).
        """
        if not victim.work:
            raise FaultError(f"{self.id}: this job has no work folder, and no other file may be touched")
        work = Path(victim.work).resolve()
        found = [path for path in work.glob(self.path) if path.is_file() and path.stat().st_size > 0]
        if not found:
            raise FaultError(f"{self.id}: no file in {work} matches {self.path!r}")
        ordered = sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
        file = ordered[-1 if self.pick == "newest" else 0]
        if not file.resolve().is_relative_to(work):
            raise FaultError(f"{self.id}: {file} leads to {file.resolve()}, outside {work}")
        return file.resolve()

    def inject(self, victim: Victim, channel: Channel | None) -> Evidence:
        try:
            record = self.undo_record(victim)
            folder, file = Path(record.data["kept"]), self.chosen(victim)
            note = keeping.damage(file, folder, self.damage)
        except (FaultError, OSError) as error:
            return Evidence(f"{self.id}: {error}", False)
        data = {"file": note.path, "before": note.original, "after": note.damaged, "size_before": note.size}
        return Evidence(f"{file.name} was damaged in place", note.damaged != note.original, data=data)

    def damage(self, file: BinaryIO) -> None:
        """Change the open file (mode r+b) in place."""
        raise NotImplementedError

    def verify(self, victim: Victim, fired: Evidence | None = None) -> Evidence:
        if fired is None or not fired.proven:
            return Evidence("nothing was damaged", False)
        file = Path(fired.data["file"])
        if not file.is_file():
            return Evidence(f"{file} is gone", False)
        now = keeping.digest(file)
        data: dict[str, Any] = {"before": fired.data["before"], "now": now, "size": file.stat().st_size}
        changed = now == fired.data["after"] != fired.data["before"]
        return Evidence(f"{file.name} has SHA-256 {now[:12]}, was {data['before'][:12]}", changed, data=data)

    def verify_undone(self, record: UndoRecord) -> Evidence:
        folder = Path(record.data["kept"])
        if not folder.exists():
            return Evidence(
                "no original is kept any more: the file is as it was, or not ours to restore", True
            )
        note = keeping.read(folder)
        whole = note is None or keeping.is_whole(note)
        return Evidence(f"{folder} is still there", False, data={"whole": whole})
