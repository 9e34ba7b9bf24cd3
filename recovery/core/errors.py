"""The error of the protocol."""

from __future__ import annotations


class ProtocolError(Exception):
    """The runtime and the protocol disagree about what can happen: a bug in one of them."""
