"""``report.html``: a run as one page that needs nothing but itself."""

from __future__ import annotations

from chaos.report.html.page import page
from chaos.report.html.render import render

__all__ = ["page", "render"]
