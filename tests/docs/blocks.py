"""The code that README and docs/ show, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', flags=re.M | re.S)
INDENTED = re.compile(r"^    (torch-chaos (?:[^\n]*\\\n)*[^\n]*)$", flags=re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block. `line`: of its first line of code. `title`: the file that it is, "" if it is none."""

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(*languages: str) -> list[Block]:
    """Every block in one of these languages; all blocks if none is named."""
    return [
        Block(
            str(path.relative_to(ROOT)),
            text.count("\n", 0, found.start()) + 2,
            found[1],
            found[2] or "",
            found[3],
        )
        for path in pages()
        for text in (path.read_text(encoding="utf-8"),)
        for found in FENCE.finditer(text)
        if not languages or found[1] in languages
    ]


def commands() -> Iterator[tuple[str, str]]:
    """Every `torch-chaos` command line in a shell block or an indented one: (where, command)."""
    for path in pages():
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        # The usage lines of the generated page are made by that parser, not for it.
        for found in INDENTED.finditer(text if name != "docs/reference/cli.md" else ""):
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}", found[1]
    for block in blocks("sh"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if re.match(r"(\S*/)?torch-chaos ", line):
                yield block.where, line
