"""What the command loads before it does anything, which is why it starts at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.runs import ROOT, environment

pytestmark = pytest.mark.slow

# Each takes as long to import as a person waits for a prompt, or longer, and checks no file.
HEAVY = frozenset(
    (
        *("torch", "numpy", "sklearn", "psutil"),
        *("rich", "jinja2", "junitparser", "markupsafe", "opentelemetry"),
        *("docker", "pyroute2", "mfusepy", "pynvml"),
        *("hypothesis", "pytest", "asyncio", "multiprocessing"),
        *("chaos.runner", "chaos.report", "chaos.clusters", "chaos.targets", "chaos.judge", "recovery"),
    )
)
# Not pydantic: typer itself takes it to read options.
ENGINE = frozenset(("ruamel", "chaos.suite", "chaos.plan", "injectors"))


def loaded_by(*argv: str) -> set[str]:
    """The modules that a command has imported at its end, and the packages that they are in."""
    code = (
        "import sys\nfrom chaos.cli import app\n"
        f"assert app._main({list(argv)!r}) == 0\n"
        "print('\\n', *sys.modules, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("\n\n")[-1].split())


@pytest.mark.parametrize("argv", [("--help",), ("run", "--help"), ("--version",)], ids=" ".join)
def test_the_help_loads_no_engine(argv: tuple[str, ...]) -> None:
    loaded = loaded_by(*argv)
    assert "typer" in loaded
    assert sorted(loaded & (HEAVY | ENGINE)) == []


def test_a_check_of_a_suite_loads_nothing_that_could_run_it() -> None:
    loaded = loaded_by("validate", "suites/smoke.yaml")
    assert {"chaos.suite", "pydantic", "ruamel.yaml", "injectors.process"} <= loaded
    assert sorted(loaded & HEAVY) == []
    # A family of faults that the suite does not name stays where it is.
    assert "injectors.net" not in loaded
