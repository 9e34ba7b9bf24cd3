"""Reports: report.json (published schema), JUnit XML, tables, and the live view."""

from __future__ import annotations

from chaos.report.build import build
from chaos.report.junit import junit, write_junit
from chaos.report.live import LiveView
from chaos.report.model import Report, schema
from chaos.report.table import plain_table, rich_table

__all__ = ["LiveView", "Report", "build", "junit", "plain_table", "rich_table", "schema", "write_junit"]
