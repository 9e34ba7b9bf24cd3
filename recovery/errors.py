"""What can go wrong, in the user's terms."""

from __future__ import annotations


class RecoveryError(Exception):
    """Something that the user can mend: wrong use of the API, state that can't be protected."""


class Interrupted(BaseException):
    """The generation has ended while a step ran; `Run.step` rolls back and replays.

    A BaseException, so that `except Exception` in user code does not swallow it: raised from a process
    group's method it leaves a backward pass cleanly.
    """


class OutsideStep(RecoveryError, RuntimeError):
    """A collective was issued, or failed, outside `run.step`, where nothing could replay it."""
