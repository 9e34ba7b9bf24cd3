"""Faults of the input: a loader's worker gone, a batch late, a batch that training can't use."""

from __future__ import annotations

from injectors.data.bad_batch import DataBadBatch
from injectors.data.slow import DataSlow
from injectors.data.worker_kill import DataWorkerKill
from injectors.fault import Fault

FAULTS: tuple[type[Fault], ...] = (DataWorkerKill, DataSlow, DataBadBatch)
