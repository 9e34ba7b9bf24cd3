"""The recovery protocol as data and pure functions: no I/O, no threads, no clock of its own.

`coordinator` and `member` decide, `messages` and `orders` name what they hear and want done, `blame` reads
progress counters, `config` holds the limits. The real runtime (`recovery.shell`) and the simulator drive
the same code. PROTOCOL.md, beside this folder, says what it promises.
"""
