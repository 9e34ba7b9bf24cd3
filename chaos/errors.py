"""The errors a user can mend, each with the exit code that it ends the command with."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the exit status of `torch-chaos` says. One place, so that help, docs and code cannot disagree.

    When several hold at once the order is LEFTOVERS, INTERRUPTED, VIOLATED, INTERNAL, INCONCLUSIVE, PASSED: a
    machine that is not clean outranks every verdict, since the next run on it cannot be trusted.
    """

    PASSED = 0
    VIOLATED = 1
    INCONCLUSIVE = 2
    LEFTOVERS = 3
    REFUSED = 4
    USAGE = 64
    INTERNAL = 70
    INTERRUPTED = 130


class UserError(Exception):
    """Something the user can mend: what is wrong, where, and how to mend it.

    Args:
        message: what and where, with the value received.
        mend: one line that says what to do.
    """

    exit_code: Exit = Exit.USAGE

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message}\n  mend: {self.mend}" if self.mend else self.message


def one_line(said: object) -> str:
    """An error and its remedy as one line of a list."""
    return str(said).replace("\n  mend: ", "; ")


class Refused(UserError):
    """The run is refused before anything was started: an empty target, a missing privilege or capability."""

    exit_code = Exit.REFUSED


class TargetFailed(UserError):
    """The target could not be started, or failed although no fault had been injected."""

    exit_code = Exit.INCONCLUSIVE
