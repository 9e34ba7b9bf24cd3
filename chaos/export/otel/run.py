"""A stored run as telemetry. Pure."""

from __future__ import annotations

import hashlib

from chaos.export.otel.metrics import metrics_of
from chaos.export.otel.spans import spans_of
from chaos.export.otel.telemetry import Attributes, Telemetry, attributes, clean
from chaos.records import text_of
from chaos.report.model import Report
from chaos.report.stored import Stored

SERVICE = "torch-chaos"


def telemetry(stored: Stored, started_s: float) -> Telemetry:
    """Everything that a run tells.

    Args:
        started_s: when it began, seconds since the Unix epoch.
    """
    report = stored.report
    start_ns = round(started_s * 1e9)
    return Telemetry(
        resource=_resource(report, start_ns),
        spans=tuple(spans_of(stored, started_s)),
        metrics=metrics_of(report),
        start_ns=start_ns,
        end_ns=start_ns + round(report.wall_s * 1e9),
        left_out=tuple(s.name for s in report.scenarios if not stored.scenarios[s.name].lines),
    )


def _resource(report: Report, start_ns: int) -> Attributes:
    """What the run was. Names that the semantic conventions have are theirs."""
    environment = report.environment
    versions = {
        "service.version": text_of(environment, "torch_chaos"),
        "process.runtime.version": text_of(environment, "python"),
    }
    return {
        "service.name": SERVICE,
        # Every run is a series of its own: its counters are not the next one's, gone back to 0.
        "service.instance.id": hashlib.sha256(f"{report.plan_hash}/{start_ns}".encode()).hexdigest()[:32],
        **{name: clean(value) for name, value in versions.items() if value is not None},
        **attributes(
            "run",
            suite=report.suite,
            seed=report.seed,
            exit_code=report.exit_code,
            commit=text_of(environment, "commit"),
            kernel=text_of(environment, "kernel"),
            cpu=text_of(environment, "cpu"),
        ),
        **attributes("plan", hash=report.plan_hash),
        **attributes("torch", version=text_of(environment, "torch")),
    }
