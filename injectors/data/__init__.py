from __future__ import annotations

from injectors.fault import Fault

FAULTS: tuple[type[Fault], ...] = ()
