"""Reports: report.json (published schema), JUnit XML, tables, and the live view."""

from __future__ import annotations

from chaos.report.build import build

__all__ = ["build"]
