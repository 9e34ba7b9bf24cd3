"""A stored run as OpenTelemetry has it: `run` makes plain data of it, `send` and `files` hand that over.

The last two need the extra `otel`; importing them without it raises ModuleNotFoundError.
"""

from __future__ import annotations
