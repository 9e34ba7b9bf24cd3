"""The CI file that `init` writes beside a first suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

GITHUB = """\
name: torch-chaos
on: [pull_request]
permissions: {{contents: read}}
jobs:
  chaos:
    runs-on: ubuntu-latest
    timeout-minutes: 30
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {{python-version: "3.12"}}
      - run: pip install {install}
      - run: torch-chaos run {suite} --format plain --report-dir torch-chaos-report
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: torch-chaos, path: torch-chaos-report}}
"""
GITLAB = """\
torch-chaos:
  image: python:3.12
  timeout: 30m
  script:
    - pip install {install}
    - torch-chaos run {suite} --format plain --report-dir torch-chaos-report
  artifacts:
    when: always
    paths: [torch-chaos-report]
    reports:
      junit: torch-chaos-report/junit.xml
"""
FILES = {
    "github": (Path(".github/workflows/torch-chaos.yml"), GITHUB),
    "gitlab": (Path("torch-chaos.gitlab-ci.yml"), GITLAB),
}


def write(ci: Literal["auto", "github", "gitlab", "none"], folder: Path, suite: Path) -> Iterator[str]:
    """Write the file; yields what to tell. With `auto`, the kind that the folder has already, if any."""
    kind = _kind(folder) if ci == "auto" else ci
    if kind == "none":
        return
    name, text = FILES[kind]
    path = folder / name
    if path.exists():
        yield f"{name} is already there and was left as it is"
        return
    inside = suite.resolve()
    shown = inside.relative_to(folder) if inside.is_relative_to(folder) else suite
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(install=_install(folder), suite=shown.as_posix()), encoding="utf-8")
    yield f"wrote {name}"
    if kind == "gitlab":
        yield f"add to .gitlab-ci.yml: include: [{{local: {name}}}]"


def _kind(folder: Path) -> str:
    if (folder / ".github").is_dir():
        return "github"
    return "gitlab" if (folder / ".gitlab-ci.yml").is_file() else "none"


def _install(folder: Path) -> str:
    """What the script needs, as far as the folder says it, and this package."""
    if (folder / "requirements.txt").is_file():
        return "-r requirements.txt torch-chaos"
    return ". torch-chaos" if (folder / "pyproject.toml").is_file() else "torch-chaos"
