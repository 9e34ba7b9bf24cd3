"""What all generated pages share."""

from __future__ import annotations

from collections.abc import Iterator


def cell(text: str) -> str:
    """Text for one cell of a Markdown table: one line, no bar that would end the cell."""
    return " ".join(text.split()).replace("|", "\\|")


def joined(lines: Iterator[str]) -> str:
    """A page's text."""
    return "\n".join(lines).rstrip() + "\n"
