"""The page as a person meets it: opened from its file in a headless Chromium, two widths and both themes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.report.pages import write_pages
from tests.chaos.report.folder import write_run

if TYPE_CHECKING:
    from playwright.sync_api import Page

# The browser and its searches are slow beside other load.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SCENARIOS = ("stale_state", "hostile_words", "raises_at_import", "cut_off")
WIDTHS = (1280, 390)
THEMES = ("light", "dark")
# A search takes seconds, so each width and each theme is searched once.
SEARCHED = ((1280, "light"), (390, "dark"))
# Worse than these levels is what the page must not have.
MILD = ("minor", "moderate")
PNG = b"\x89PNG\r\n\x1a\n"


@dataclass
class Visit:
    """What was seen in one width and theme."""

    said: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    searched: int = 0
    overflows: bool = False
    background: str = ""
    picture: bytes = b""


@dataclass
class Seen:
    """Everything that was seen; the browser is closed by then."""

    visits: dict[tuple[int, str], Visit] = field(default_factory=dict)
    dangling: list[str] = field(default_factory=list)
    links: int = 0
    unseen: list[str] = field(default_factory=list)
    lanes: dict[str, list[str]] = field(default_factory=dict)
    zoomed: tuple[float, float, bool] = (0.0, 0.0, False)
    by_key: float = 0.0
    copied: str = ""
    order: list[str] = field(default_factory=list)
    printed: int = 0
    without_script: int = 0


@pytest.fixture(scope="module")
def seen(require: Callable[[str], None], tmp_path_factory: pytest.TempPathFactory) -> Seen:
    require("chromium")
    from playwright.sync_api import sync_playwright

    folder = write_run(tmp_path_factory.mktemp("run"), only=SCENARIOS)
    write_pages(folder, ["net.delay"])
    # TORCH_CHAOS_PICTURES names a folder for whoever wants to look.
    kept = os.environ.get("TORCH_CHAOS_PICTURES")
    found = Seen()
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=shutil.which("chromium"))
        address = (folder / "report.html").as_uri()
        for width in WIDTHS:
            for theme in THEMES:
                place = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
                found.visits[width, theme] = visit(place, address, search=(width, theme) in SEARCHED)
                if kept:
                    Path(kept, f"report-{width}-{theme}.png").write_bytes(found.visits[width, theme].picture)
                place.close()
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        use(context.new_page(), address, found)
        context.close()
        plain = browser.new_context(java_script_enabled=False).new_page()
        plain.goto(address)
        found.without_script = plain.locator(".lanes").count()
        browser.close()
    return found


def visit(place: Page, address: str, search: bool) -> Visit:
    from axe_playwright_python.sync_playwright import Axe

    found = Visit()
    place.on("console", lambda message: found.said.append(message.text))
    place.on("pageerror", lambda error: found.said.append(str(error)))
    place.on("request", lambda request: found.requests.append(request.url))
    place.goto(address)
    # What is folded is looked at as well.
    place.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    if search:
        found.violations = Axe().run(place).response["violations"]
        found.searched = place.evaluate("document.querySelectorAll('*').length")
    found.overflows = place.evaluate("document.documentElement.scrollWidth > innerWidth")
    found.background = place.evaluate("getComputedStyle(document.body).backgroundColor")
    found.picture = place.screenshot(full_page=True)
    return found


def use(place: Page, address: str, found: Seen) -> None:
    place.goto(address)
    links = place.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href').slice(1))")
    found.links = len(links)
    for target in sorted(set(links)):
        if place.locator(f"[id='{target}']").count() != 1:
            found.dangling.append(target)
            continue
        # Following it must open what it is folded into.
        place.evaluate("(target) => { location.hash = target; }", target)
        if not place.locator(f"[id='{target}']").is_visible():
            found.unseen.append(target)
    for chart in place.locator(".scenario .chart:has(.names)").all():
        name = chart.get_attribute("id") or ""
        found.lanes[name] = chart.locator(".names li").all_inner_texts()
    chart = place.locator("#s1-chart")
    place.locator("#s1 button.find").first.click()
    width = chart.locator(".scroll").evaluate("(scroll) => scroll.clientWidth")
    wide = chart.locator("svg.lanes").evaluate("(svg) => svg.getBoundingClientRect().width")
    box = chart.locator(".phase.regroup").first.bounding_box()
    frame = chart.locator(".scroll").bounding_box()
    assert box is not None
    assert frame is not None
    inside = frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
    found.zoomed = (width, wide, inside)
    place.keyboard.press("0")
    place.keyboard.press("+")
    found.by_key = float(chart.get_attribute("data-zoom") or 0)
    place.locator("#s1 button.copy").click()
    place.wait_for_function("document.querySelector('#s1 button.copy').textContent === 'copied'")
    found.copied = place.evaluate("navigator.clipboard.readText()")
    place.goto(address)
    for _ in range(4):
        place.keyboard.press("Tab")
        found.order.append(place.evaluate("document.activeElement.textContent"))
    found.printed = len(place.pdf())


def each(seen: Seen) -> list[Visit]:
    return [seen.visits[width, theme] for width in WIDTHS for theme in THEMES]


def test_the_console_says_nothing(seen: Seen) -> None:
    assert [found.said for found in each(seen)] == [[]] * 4


def test_nothing_is_loaded_but_the_page(seen: Seen) -> None:
    for found in each(seen):
        assert [url.rpartition("/")[2] for url in found.requests if not url.startswith("data:")] == [
            "report.html"
        ]


def test_axe_finds_nothing_serious(seen: Seen) -> None:
    found = [
        (rule["id"], rule["impact"], [node["html"][:120] for node in rule["nodes"][:3]])
        for one in each(seen)
        for rule in one.violations
        if rule["impact"] not in MILD
    ]
    assert found == []
    assert [seen.visits[place].searched > 1000 for place in SEARCHED] == [True, True]


def test_every_link_leads_to_something_that_can_be_seen(seen: Seen) -> None:
    assert seen.links > 80
    assert (seen.dangling, seen.unseen) == ([], [])


def test_every_scenario_has_its_lanes(seen: Seen) -> None:
    assert len(seen.lanes) == 4
    assert seen.lanes["s1-chart"] == ["faults", "job", "rank 0", "rank 1", "rank 2", "seconds"]
    nodes, ranks = [f"node {n}" for n in range(3)], [f"rank {n}" for n in range(3)]
    assert seen.lanes["s4-chart"] == ["faults", "job", *nodes, *ranks, "seconds"]


def test_a_recovery_can_be_zoomed_to(seen: Seen) -> None:
    width, wide, inside = seen.zoomed
    assert wide > 1.5 * width
    assert inside


def test_the_keyboard_zooms_and_walks(seen: Seen) -> None:
    assert seen.by_key == 2
    assert seen.order == ["to the verdicts", "verdicts", "recovery times", "coverage"]


def test_the_replay_command_can_be_copied(seen: Seen) -> None:
    assert seen.copied == "torch-chaos replay reports/sample/plan.json --only stale_state"


def test_the_page_is_never_wider_than_the_screen(seen: Seen) -> None:
    assert [found.overflows for found in each(seen)] == [False] * 4


def test_both_themes_are_drawn_in_both_widths(seen: Seen) -> None:
    light, dark = ({seen.visits[width, theme].background for width in WIDTHS} for theme in THEMES)
    assert (light, dark) == ({"rgb(255, 255, 255)"}, {"rgb(13, 17, 23)"})
    assert all(found.picture.startswith(PNG) for found in each(seen))
    assert len({found.picture for found in each(seen)}) == 4


def test_it_prints(seen: Seen) -> None:
    assert 10_000 < seen.printed < 2_000_000


def test_the_drawings_are_there_without_a_script(seen: Seen) -> None:
    assert seen.without_script == 4
