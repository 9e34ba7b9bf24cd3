"""The site: built without a warning, read without a network; and what its hand-written tables say is so."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.invariants import catalogue
from chaos.suite import load
from chaos.suite.model import EVENTS
from injectors.catalogue import CATALOGUE
from tests.chaos.runs import environment
from tests.docs.blocks import ROOT


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="the extra `docs` is not installed")
def test_the_site_builds_without_a_warning_and_fetches_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    built = sorted((tmp_path / "site").rglob("*.html"))
    assert len(built) > 25
    for path in built:
        text = path.read_text(encoding="utf-8")
        assert (
            re.findall(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=\"?(?:https?:|//)[^>]*>", text)
            == []
        )
    assert not list((tmp_path / "site").rglob("outside_links*"))
    # A file outside docs/ is named where a page links to it; a page of docs/ stays a link.
    page = (tmp_path / "site" / "writing-a-fault.html").read_text(encoding="utf-8")
    assert "<code>injectors/process/stop.py</code> is the one to copy" in page
    assert 'href="../faults.html"' in (tmp_path / "site" / "faults" / "process.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_the_gallery_names_scenarios_that_ship() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 15
    for public, _, named, shown in rows:
        assert re.search(r"\w/[\w-]+( PR)?#\d+", public), public
        suite, name = re.findall(r"`(\w+)`", named)
        (scenario,) = [item for item in load(suite, CATALOGUE).suite.scenarios if item.name == name]
        said = re.search(r"must be (\w+) by `(\w+)`", shown)
        expected = (scenario.expect.verdict, scenario.expect.invariant)
        assert expected == ((said[1], said[2]) if said else ("PASS", None)), named
        assert set(re.findall(r"`(\w+_\w+)`", shown)) <= set(catalogue)


def test_every_event_that_a_fault_may_wait_for_is_explained() -> None:
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    missing = [name for name in EVENTS if name not in text and f"`.{name.partition('.')[2]}`" not in text]
    assert missing == []
