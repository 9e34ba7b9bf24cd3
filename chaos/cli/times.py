"""Times on the command line."""

from __future__ import annotations

from chaos.errors import UserError
from chaos.suite import durations


def seconds(option: str, text: str, example: str) -> float:
    """A time that was given to an option, in seconds.

    Raises:
        UserError: it is none; the message shows the example.
    """
    try:
        return durations.seconds(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}", f"write a number and a unit: {example}") from None
