from __future__ import annotations

from collections.abc import Mapping

from injectors.undo import Handler

HANDLERS: Mapping[str, Handler] = {}
