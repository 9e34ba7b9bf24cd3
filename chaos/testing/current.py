"""The pytest session that this process is in: what the plugin knows and a decorator has to ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.testing.options import Options, from_environment

if TYPE_CHECKING:
    from chaos.testing.session import TorchChaos


@dataclass
class Current:
    """Set by the plugin. `chaos` is that of the recovery property that is being run."""

    options: Options | None = None
    chaos: TorchChaos | None = None


_current = Current()


def current() -> Current:
    """The session's."""
    return _current


def options() -> Options:
    """The session's options; outside of pytest those of the environment."""
    return _current.options or from_environment()
