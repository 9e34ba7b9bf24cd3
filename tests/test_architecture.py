"""The two rules of shape that a reviewer cannot hold by eye: the core is pure, and imports go one way."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Pure code takes its events, its time and its random choices as arguments.
PURE = (
    "recovery/core",
    "chaos/plan.py",
    "chaos/plan",
    "chaos/judge.py",
    "chaos/invariants",
    "chaos/recoveries.py",
    "chaos/records.py",
    *(f"chaos/attach/{name}.py" for name in ("job", "faults")),
    *(f"chaos/compare/{name}.py" for name in ("rank_test", "samples", "compare", "text", "trend")),
    "chaos/report/github.py",
    *(
        f"chaos/shrinking/{name}.py"
        for name in ("smallest", "failure", "variants", "jobs", "plainer", "hunt", "artefacts")
    ),
    *(
        f"chaos/simulation/{name}.py"
        for name in (
            *("world", "worker", "group", "striking", "checks", "plan", "generate", "coverage"),
            *("fleet", "fleet_checks", "network", "node_faults", "post", "progress", "generate_nodes"),
        )
    ),
    *(
        f"chaos/fuzz/{name}.py"
        for name in ("asked", "build", "draw", "fits", "moments", "planned", "seen", "space", "text")
    ),
    *(
        f"chaos/report/{name}.py"
        for name in ("coverage", "course", "lanes", "lives", "loss", "now", "screen", "trace")
    ),
    *(f"chaos/export/otel/{name}.py" for name in ("metrics", "run", "spans", "telemetry")),
    *(f"chaos/report/html/{name}.py" for name in ("evidence", "model", "page", "plots", "svg", "timeline")),
    "chaos/suite/durations.py",
    "chaos/suite/guess.py",
    "chaos/suite/model.py",
    "chaos/suite/resolve.py",
    "chaos/suite/faults.py",
    "injectors/agent/trigger.py",
    "injectors/roles.py",
)
IMPURE_MODULES = frozenset(
    (
        *("time", "datetime", "random", "secrets", "uuid"),
        *("socket", "select", "selectors", "asyncio"),
        *("threading", "multiprocessing", "subprocess", "signal"),
        *("os", "io", "pathlib", "shutil", "tempfile", "logging"),
        *("torch", "numpy", "psutil"),
    )
)
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})

# What each package may import of the others, and of `recovery` only the public names.
ALLOWED: dict[str, frozenset[str]] = {
    "recovery": frozenset(),
    "injectors": frozenset(),
    "suites": frozenset({"recovery"}),
    "chaos": frozenset({"injectors", "recovery"}),
}
PUBLIC_RECOVERY = frozenset({"recovery", "recovery.launch", "recovery.events"})
# The simulator exists to drive the very machines that real jobs run, so it may know the pure protocol.
SIMULATOR = "chaos/simulation/"


def python_files(*places: str) -> list[Path]:
    found: list[Path] = []
    for place in places:
        path = ROOT / place
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return found


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import; those for type checkers only are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for_types = {id(n) for block in ast.walk(tree) if _is_type_checking(block) for n in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from recovery import launch` names the module recovery.launch.
            submodules = [
                a.name for a in node.names if (ROOT / node.module.replace(".", "/") / f"{a.name}.py").exists()
            ]
            yield from ((node.lineno, f"{node.module}.{name}") for name in submodules)
            if len(submodules) < len(node.names):
                yield node.lineno, node.module


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def impurities(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    found = [
        f"line {line}: imports {name}"
        for line, name in imports_of(path)
        if name.split(".")[0] in IMPURE_MODULES
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}()")
    return found


@pytest.mark.parametrize("path", python_files(*PURE), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_core_is_pure(path: Path) -> None:
    assert impurities(path) == []


def test_an_impure_module_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "core.py"
    path.write_text(
        "import os.path\nfrom time import monotonic\nprint(open('x'))\nimport json\n", encoding="utf-8"
    )
    assert impurities(path) == [
        "line 1: imports os.path",
        "line 2: imports time",
        "line 3: calls print()",
        "line 3: calls open()",
    ]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_imports_go_one_way(package: str) -> None:
    others = frozenset(ALLOWED) - {package} - ALLOWED[package]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files(package)
        for line, name in imports_of(path)
        if name.split(".")[0] in others
        or (package != "recovery" and name.split(".")[0] == "recovery" and not may_use(path, name))
    ]
    assert wrong == []


def may_use(path: Path, name: str) -> bool:
    """Whether a file outside the runtime may import this part of it."""
    simulator = str(path.relative_to(ROOT)).startswith(SIMULATOR)
    return name in PUBLIC_RECOVERY or (simulator and name.split(".")[:2] == ["recovery", "core"])


def test_what_runs_inside_a_victim_is_standard_library_only() -> None:
    """The agent is loaded by path into other people's processes: what else it uses is theirs, or absent."""
    allowed = sys.stdlib_module_names | {"torch", "xxhash", "injectors", "sitecustomize"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files("injectors/agent")
        for line, name in imports_of(path)
        if name.split(".")[0] not in allowed and not name.startswith("_torch_chaos")
    ]
    assert wrong == []


def test_no_unsafe_deserialisation() -> None:
    """Peers and stored files are data: nothing of ours runs what it reads."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files("chaos", "injectors", "recovery", "suites")
        for line, name in imports_of(path)
        if name.split(".")[0] in {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    ]
    assert wrong == []
