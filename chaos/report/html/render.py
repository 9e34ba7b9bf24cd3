"""The page as one HTML file: no request leaves it, and only its own script runs in it.

Rules kept here:

- Everything that a run said is escaped: the template engine escapes by default, and drawings are written by
  an XML writer.
- The page's policy forbids every load, and every script but the one whose digest it names.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections import Counter
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from chaos.report.html.model import InvariantView, Page
from chaos.report.html.svg import clean
from chaos.report.html.timeline import SHAPES


def render(page: Page) -> str:
    """The finished page."""
    environment = _environment()
    script = environment.get_template("page.js.j2").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html.j2").render(
        page=page,
        style=Markup(environment.get_template("style.css.j2").render()),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("chaos.report.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    environment.globals.update(counts=_counts, shapes=SHAPES)
    return environment


def _cleaned(value: object) -> object:
    """Text without control characters, which HTML may not hold; what is markup was made here."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def breakable(name: str) -> Markup:
    """A long name that may be broken after its underscores and dots, and nowhere else."""
    text = str(escape(clean(name)))
    return Markup(text.replace("_", "_<wbr>").replace(".", ".<wbr>"))


def _counts(items: Sequence[InvariantView]) -> list[tuple[str, int]]:
    """How many invariants came to which verdict, the most frequent first."""
    return Counter(item.verdict.word for item in items).most_common()
