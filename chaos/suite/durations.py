"""Durations as people write them: `500ms`, `2s`, `1.5m`, `1h`."""

from __future__ import annotations

import re

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PATTERN = r"^\d+(\.\d+)?(ms|s|m|h)$"
_FORM = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def seconds(text: str) -> float:
    """The length of a duration in seconds.

    Raises:
        ValueError: the text is not a number followed by ms, s, m or h.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration")
    # Rounded to the microsecond, so that 0.1 + 0.2 style noise never reaches a plan.
    return round(float(match.group(1)) * UNITS_S[match.group(2)], 6)


def spelled(duration_s: float) -> str:
    """The shortest spelling of a duration: 0.5 -> `500ms`, 2.0 -> `2s`."""
    if duration_s < 1.0:
        return f"{duration_s * 1000:g}ms"
    return f"{duration_s:g}s" if duration_s < 60.0 or duration_s % 60 else f"{duration_s / 60:g}m"
