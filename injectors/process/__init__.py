"""Faults of one process: killed, frozen, ended, failing."""

from injectors.fault import Fault
from injectors.process.abort import ProcessAbort
from injectors.process.exception import ProcessException
from injectors.process.exit import ProcessExit
from injectors.process.gil_lock import ProcessGilLock
from injectors.process.kill import ProcessKill
from injectors.process.oom import ProcessOom
from injectors.process.segv import ProcessSegv
from injectors.process.stop import ProcessStop
from injectors.process.term import ProcessTerm

FAULTS: tuple[type[Fault], ...] = (
    ProcessKill,
    ProcessStop,
    ProcessTerm,
    ProcessSegv,
    ProcessAbort,
    ProcessException,
    ProcessGilLock,
    ProcessExit,
    ProcessOom,
)
