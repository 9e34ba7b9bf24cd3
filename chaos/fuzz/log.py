"""``fuzz.jsonl``: a line when a search is started, and one for each round. All that a resumed one needs.

Rules kept here:

- A round counts once its line is whole. What belongs to it is written before, so nothing counted is missing.
- A line is written with one call. One that a killed tool left half written is cut off and said; the round is
  run again.
- Damage anywhere else is no accident of a kill, and is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from chaos.errors import Refused, UserError
from chaos.fuzz.seen import Round

NAME = "fuzz.jsonl"
LOCK = ".lock"


@dataclass
class Log:
    """The file, open for one search. Use as a context manager.

    Attributes:
        starts: what the starts of the search so far said, the first one first.
        rounds: the rounds so far.
        cut_off: the half-written line that was there, "" if there was none.
    """

    folder: Path
    starts: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    cut_off: str = ""
    _file: int = -1
    _lock: FileLock | None = None

    def __enter__(self) -> Log:
        """Take the folder, read what is there and mend its end.

        Raises:
            Refused: it can't be written to, or another search has it.
            UserError: the file is damaged.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / LOCK)
            self._lock.acquire(timeout=0)
            self._file = os.open(self.folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._read()
        except Timeout:
            raise Refused(f"{self.folder}: another search is under way here", "give --out another") from None
        except OSError as error:
            self.close()
            raise Refused(
                f"{self.folder}: cannot be written to: {error.strerror}", "choose another folder with --out"
            ) from None
        except UserError:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the folder back. May be repeated."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._lock is not None:
            self._lock.release()
            (self.folder / LOCK).unlink(missing_ok=True)
            self._lock = None

    def start(self, said: Mapping[str, Any]) -> None:
        """Note that a search begins, or goes on."""
        self.starts.append(dict(said))
        self._write({"start": said})

    def add(self, one: Round) -> None:
        """Note a round that is over."""
        self.rounds.append(one)
        self._write(one.to_dict())

    def _write(self, data: Mapping[str, Any]) -> None:
        line = memoryview(json.dumps(data, ensure_ascii=False).encode() + b"\n")
        while line:
            line = line[os.write(self._file, line) :]

    def _read(self) -> None:
        text = (self.folder / NAME).read_bytes()
        whole, _, rest = text.rpartition(b"\n")
        lines = whole.split(b"\n") if whole else []
        for number, line in enumerate(lines, 1):
            self._take(line, number)
        if rest:
            self.cut_off = rest.decode(errors="replace")
        end = len(text) - len(rest)
        os.ftruncate(self._file, end)
        os.lseek(self._file, end, os.SEEK_SET)

    def _take(self, line: bytes, number: int) -> None:
        try:
            data = json.loads(line)
            if "start" in data:
                self.starts.append(data["start"])
                return
            one = Round.from_dict(data)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.folder / NAME}:{number}: damaged: {error!r}",
                "start anew in another folder: --out DIR",
            ) from None
        if one.number != len(self.rounds) + 1:
            raise UserError(
                f"{self.folder / NAME}:{number}: round {one.number} where {len(self.rounds) + 1} should be",
                "start anew in another folder: --out DIR",
            )
        self.rounds.append(one)
