from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from chaos.report.html import page, render
from chaos.report.html.render import breakable
from chaos.report.stored import read
from tests.chaos.histories import Job
from tests.chaos.report.folder import many_steps, with_loss, write_history, write_jobs, write_run
from tests.chaos.report.html.document import Document


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return render(page(read(write_run(tmp_path_factory.mktemp("run"))), ["net.delay"]))


@pytest.fixture(scope="module")
def document(text: str) -> Document:
    return Document(text)


def test_every_link_leads_somewhere_on_the_page(document: Document) -> None:
    assert len(document.links) > 100
    assert [link for link in document.links if not link.startswith("#")] == []
    assert {link[1:] for link in document.links} - set(document.anchors) == set()


def test_every_anchor_is_there_once(document: Document) -> None:
    assert len(document.anchors) == len(set(document.anchors))


def test_labels_and_buttons_name_what_is_there(document: Document) -> None:
    names = ("aria-labelledby", "data-copy", "data-of", "data-find")
    named = {value for _, name, value in document.attributes if name in names}
    assert named
    assert named - set(document.anchors) == set()


def test_what_a_job_said_is_text_and_nothing_else(text: str, document: Document) -> None:
    assert document.tags.count("script") == 1
    assert "b" not in document.tags
    assert "&lt;script&gt;alert(" in text
    assert "\x00" not in text
    assert [name for _, name, _ in document.attributes if name.startswith("on")] == []


def test_no_request_leaves_the_page(document: Document) -> None:
    loads = [
        (tag, value)
        for tag, name, value in document.attributes
        if name in ("src", "srcset", "data", "action")
    ]
    assert loads == []
    sheets = [value for tag, name, value in document.attributes if tag == "link" and name == "href"]
    assert sheets == ["data:,"]


def test_the_policy_names_the_one_script(text: str) -> None:
    script = re.search(r"<script>(.*?)</script>", text, re.S)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert "default-src 'none'" in text


def test_everything_is_there_without_the_script(text: str) -> None:
    without = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert Document(without).links == Document(text).links
    assert [name for _, name, _ in Document(without).attributes if name == "hidden"] == []


def test_colours_are_never_the_only_sign(text: str) -> None:
    for verdict, sign in (("PASS", "✓"), ("VIOLATED", "✗"), ("ERROR", "!"), ("INCONCLUSIVE", "?")):
        if f'class="verdict {verdict}"' in text:
            assert f'<span class="verdict {verdict}"><span aria-hidden="true">{sign}</span> {verdict}' in text
    for phase in ("detect", "fence", "regroup", "transfer", "resume"):
        assert f'<pattern id="{phase}"' in text


@pytest.mark.slow
def test_a_run_like_smoke_stays_under_a_megabyte(tmp_path: Path) -> None:
    """Fifteen scenarios of four ranks and thirty steps, with one to three kills each; three of 600 steps."""
    scenarios = {}
    for number in range(15):
        job = Job(4).steps(8)
        for rank in range(1 + number % 3):
            job.kill(rank).steps(6)
        scenarios[f"scenario_number_{number}"] = (job, job.finish().events)
    write_jobs(tmp_path, scenarios)
    for number in range(3):
        events = [*scenarios[f"scenario_number_{number}"][1], *many_steps(4, 600, from_t=10.0)]
        write_history(tmp_path / f"scenario_number_{number}", with_loss(events))
    found = render(page(read(tmp_path)))
    assert found.count('class="lanes"') == 15
    assert len(found.encode()) < 1_000_000


@pytest.mark.parametrize(
    ("name", "text"), [("a_b.c", "a_<wbr>b.<wbr>c"), ("<i>_", "&lt;i&gt;_<wbr>"), ("plain", "plain")]
)
def test_long_names_break_after_underscores_and_dots(name: str, text: str) -> None:
    assert breakable(name) == text


def test_an_empty_run_has_a_page(tmp_path: Path) -> None:
    stored = read(write_run(tmp_path, only=["none"]))
    found = Document(render(page(stored)))
    assert {link[1:] for link in found.links} <= set(found.anchors)
