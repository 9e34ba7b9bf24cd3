"""The recovery protocol as data and pure functions: no I/O, no threads, no clock of its own.

`coordinator` decides, `messages` names what it hears and what it wants done, `blame` reads progress
counters, `config` holds the limits. The real runtime (`recovery.shell`) and any simulator drive the
same code.
"""
