"""A wall clock that is wrong, for this process alone: every way in which Python tells the time of day.

`time.time` and its relatives are replaced in their module and wherever another module imported them by name;
`datetime.now` and `utcnow` are replaced in the class itself, so that every reference to the class sees them
(`today` asks `time.time`). The monotonic clocks stay as they are, as they do on a host whose clock is set.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import lasting
from .replacing import Replacing

if TYPE_CHECKING:
    from .core import Agent
    from .trigger import Armed

REAL = {
    name: getattr(time, name)
    for name in (
        "time",
        "time_ns",
        "clock_gettime",
        "clock_gettime_ns",
        "localtime",
        "gmtime",
        "ctime",
        "asctime",
        "strftime",
    )
}
WALL = (time.CLOCK_REALTIME, getattr(time, "CLOCK_TAI", time.CLOCK_REALTIME))
SAMPLE_S = 0.1


def clock(agent: Agent, armed: Armed) -> None:
    """Set the wall clock wrong until the fault ends."""
    wrong = WrongClock(float(armed.params["offset_s"]), float(armed.params["drift"]))
    wrong.start()
    if not lasting.hold(agent, armed, wrong.stop):
        agent.report("failed", armed, "no thread could hold the fault", proven=False)
        return
    drift, wall_s = wrong.measure()
    what = f"time.time() says {wall_s:.6f}; {wrong.places} references replaced"
    agent.report("fired", armed, what, wall_s=wall_s, drift=drift, references=wrong.places)


class WrongClock:
    """A clock that is `offset_s` ahead and gains `drift` seconds a second from its start on."""

    def __init__(self, offset_s: float, drift: float) -> None:
        self._offset_s, self._drift = offset_s, drift
        self._pid = os.getpid()
        self._began = time.monotonic()
        self._replacing = Replacing()
        self._running = False
        self.places = 0
        """How many references were replaced."""

    def start(self) -> None:
        """Replace what tells the time."""
        self._began, self._running = time.monotonic(), True
        self._replacing.everywhere({REAL[name]: fake for name, fake in self._fakes().items()})
        methods = type_dict(datetime.datetime)
        for key, method in self._methods().items():
            self._replacing.put(methods, key, method)
        changed(datetime.datetime)
        self.places = len(self._replacing)

    def stop(self) -> str:
        """Put everything back."""
        self._running = False
        number = self._replacing.restore()
        changed(datetime.datetime)
        return f"{number} references put back"

    def measure(self) -> tuple[float, float]:
        """How many seconds it gains a second, by the monotonic clock, and what it says now."""
        first, start = time.time(), time.monotonic()
        if self._drift == 0.0:
            return 0.0, first
        time.sleep(SAMPLE_S)
        last, end = time.time(), time.monotonic()
        return (last - first) / (end - start) - 1.0, last

    def _ahead_ns(self) -> int:
        # A forked child has no thread that would take the fault back, so it has no fault.
        if not self._running or os.getpid() != self._pid:
            return 0
        return round((self._offset_s + self._drift * (time.monotonic() - self._began)) * 1e9)

    def _time_ns(self) -> int:
        return int(REAL["time_ns"]()) + self._ahead_ns()

    def _time(self) -> float:
        return self._time_ns() / 1e9

    def _methods(self) -> dict[str, Any]:
        def now(kind: Any, tz: Any = None) -> Any:
            return kind.fromtimestamp(self._time(), tz)

        def utcnow(kind: Any) -> Any:
            return kind.fromtimestamp(self._time(), datetime.UTC).replace(tzinfo=None)

        return {"now": classmethod(now), "utcnow": classmethod(utcnow)}

    def _fakes(self) -> dict[str, Callable[..., Any]]:
        def clock_gettime(clock: int) -> float:
            real: float = REAL["clock_gettime"](clock)
            return real + self._ahead_ns() / 1e9 if clock in WALL else real

        def clock_gettime_ns(clock: int) -> int:
            real: int = REAL["clock_gettime_ns"](clock)
            return real + self._ahead_ns() if clock in WALL else real

        def of_seconds(name: str) -> Callable[..., Any]:
            def told(seconds: float | None = None) -> Any:
                return REAL[name](self._time() if seconds is None else seconds)

            return told

        def asctime(when: Any = None) -> Any:
            return REAL["asctime"](REAL["localtime"](self._time()) if when is None else when)

        def strftime(format: str, when: Any = None) -> Any:
            return REAL["strftime"](format, REAL["localtime"](self._time()) if when is None else when)

        return {
            "time": self._time,
            "time_ns": self._time_ns,
            "clock_gettime": clock_gettime,
            "clock_gettime_ns": clock_gettime_ns,
            "localtime": of_seconds("localtime"),
            "gmtime": of_seconds("gmtime"),
            "ctime": of_seconds("ctime"),
            "asctime": asctime,
            "strftime": strftime,
        }


def type_dict(kind: type) -> dict[str, Any]:
    """The dictionary behind a class's read-only view of it; for classes of C, which refuse setattr."""
    found = gc.get_referents(kind.__dict__)[0]
    assert isinstance(found, dict)
    return found


def changed(kind: type) -> None:
    """Tell the interpreter that a class was changed, so that it forgets what it has looked up."""
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))
