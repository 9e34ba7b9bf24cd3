"""Faults of one process: killed, frozen, ended, failing."""

from injectors.fault import Fault
from injectors.process.kill import ProcessKill
from injectors.process.stop import ProcessStop

FAULTS: tuple[type[Fault], ...] = (ProcessKill, ProcessStop)
