"""Documents say what the code says: tables are generated, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.export.pages import pages

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "reports/README.md",
    "docs/*.md",
    "docs/*/*.md",
)


def documents() -> list[Path]:
    return [path for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]


def test_generated_pages_are_fresh(request: pytest.FixtureRequest) -> None:
    made = pages()
    if request.config.getoption("--update-golden"):
        for name, text in made.items():
            (ROOT / "docs" / name).parent.mkdir(exist_ok=True)
            (ROOT / "docs" / name).write_text(text, encoding="utf-8")
    there = {name: ROOT / "docs" / name for name in made}
    stale = [
        name
        for name, path in there.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != made[name]
    ]
    assert stale == [], "mend: torch-chaos export docs"


def test_no_page_of_a_family_is_left_that_nothing_generates() -> None:
    found = {f"faults/{path.name}" for path in (ROOT / "docs" / "faults").iterdir()}
    assert found == {name for name in pages() if name.startswith("faults/")}


@pytest.mark.parametrize("path", documents(), ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_to_files(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    missing = [t for t in targets if not t.startswith("http") and not (path.parent / t).exists()]
    assert missing == []


def test_the_readme_has_two_commands_for_ci() -> None:
    """`.ci/run` takes the first two shell blocks as they stand."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, flags=re.M | re.S)
    assert blocks[0].splitlines()[-1] == ".venv/bin/torch-chaos run smoke"
    assert blocks[1].splitlines()[-1] == ".venv/bin/python -m pytest -n 2"


def test_the_readme_map_names_folders_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^    ([a-z]+/)\s", readme, flags=re.M)
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).is_dir()] == []


@pytest.mark.slow
def test_every_verb_in_the_documents_exists() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    verbs = set(re.findall(r"^  ([a-z]+)  ", done.stdout.split("Commands:")[1], flags=re.M))
    said = {
        verb
        for path in documents()
        for verb in re.findall(r"(?m)(?:`|^ {4}|/)torch-chaos ([a-z]+)", path.read_text(encoding="utf-8"))
    }
    assert said - verbs == set()
