"""Every block of code that README and docs/ show is run, or at least read by what would run it.

- suites (```yaml) are validated as `torch-chaos validate` does;
- command lines are parsed by the command's own parser, and the suites that they name ship;
- Python is compiled and its imports are made; what `EXECUTED` lists also runs, and so does a page's own test.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from chaos.cli.app import app
from chaos.suite import shipped
from chaos.suite.load import load_text
from injectors.catalogue import CATALOGUE
from recovery.launch import _parser as launch_parser
from tests.chaos.runs import environment
from tests.docs.blocks import ROOT, Block, blocks, commands, pages

# Not suites: what reads them instead.
OTHER_YAML = {
    "docs/attach.md": "faults without a suite; tests/chaos/attach/test_faults.py plans them",
    "docs/ci.md": "files of CI systems; tests/test_ci_files.py checks them as text",
}
# Not whole files: what they leave open.
FRAGMENTS = {
    "README.md": "its `train_step` and its model are the reader's; suites/workloads/ has whole scripts"
}
# Which test runs the blocks of a page. Those titled tests/... are run here, with what they test.
EXECUTED = {
    "docs/pytest.md": "tests/chaos/testing",
    "docs/start.md": "tests/docs/test_start.py",
    "docs/writing-a-cluster.md": "tests/docs/test_blocks.py",
    "docs/writing-a-fault.md": "tests/docs/test_blocks.py",
    "docs/writing-a-workload.md": "tests/docs/test_start.py",
    "docs/writing-an-invariant.md": "tests/docs/test_blocks.py",
}
LANGUAGES = {"python", "sh", "yaml"}
TOP: Any = typer.main.get_command(app)
# A name that a reader fills in: `A`, `SUITE`, `PLAN_OR_REPORT`.
PLACEHOLDER = re.compile(r"[A-Z][A-Z_]*$")
HEAD = "suite: shown\ndefaults:\n  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 30}\n"
QUIET = "scenarios: [{name: quiet}]\n"


def cases(*languages: str) -> list[Any]:
    return [pytest.param(block, id=block.where) for block in blocks(*languages)]


def test_every_block_is_in_a_language_that_is_checked() -> None:
    assert {block.where: block.language for block in blocks() if block.language not in LANGUAGES} == {}


def test_no_exception_is_left_over() -> None:
    shown = {block.page for block in blocks("yaml")}, {block.page for block in blocks("python")}
    assert set(OTHER_YAML) <= shown[0]
    assert shown[1] == set(FRAGMENTS) | set(EXECUTED)
    assert [test for test in EXECUTED.values() if not (ROOT / test).exists()] == []


# -- suites


def suite_of(text: str) -> str:
    """A whole suite around what a page shows of one."""
    data = yaml.safe_load(text)
    if isinstance(data, list):
        return f"{HEAD}scenarios:\n{text}"
    if "suite" in data:
        return text
    if "defaults" in data:
        return f"suite: shown\n{text}{QUIET}"
    if "target" in data:
        inner = "".join(f"  {line}" for line in text.splitlines(keepends=True))
        return f"suite: shown\ndefaults:\n{inner}{QUIET}"
    raise AssertionError(f"neither a suite nor a part of one: {sorted(data)}")


@pytest.mark.parametrize("block", [case for case in cases("yaml") if case.values[0].page not in OTHER_YAML])
def test_a_suite_has_no_problem(block: Block) -> None:
    assert load_text(suite_of(block.text), block.where, CATALOGUE).suite.scenarios


@pytest.mark.parametrize("block", [case for case in cases("yaml") if case.values[0].page in OTHER_YAML])
def test_other_yaml_can_be_read(block: Block) -> None:
    assert isinstance(yaml.safe_load(block.text), dict)


# -- command lines


@pytest.mark.parametrize(("where", "line"), [pytest.param(*case, id=case[0]) for case in commands()])
def test_a_command_line_is_one(where: str, line: str) -> None:
    verb, *words = shlex.split(line, comments=True)[1:]
    command = TOP.commands[verb]
    parsed = command.make_context(verb, words).params
    named = parsed.get("suites") or [parsed.get("suite")]
    if verb in ("run", "validate", "plan"):
        plain = [name for name in named if "." not in name and not PLACEHOLDER.match(name)]
        assert set(plain) <= set(shipped())


@pytest.mark.parametrize("block", cases("sh"))
def test_a_shell_block_can_be_read_by_a_shell(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_launcher_line_is_one() -> None:
    found = [
        (path.name, line)
        for path in pages()
        for line in re.findall(
            r"python -m recovery\.launch ((?:[^\n`]*\\\n)*[^\n`]*?\.py)", path.read_text(encoding="utf-8")
        )
    ]
    assert {name for name, _ in found} >= {"README.md", "several-nodes.md"}
    for _, line in found:
        assert launch_parser().parse_args(shlex.split(line.replace("\\\n", " "))).script.endswith(".py")


# -- Python


@pytest.mark.slow
@pytest.mark.parametrize("block", cases("python"))
def test_python_compiles_and_its_imports_exist(block: Block) -> None:
    tree = ast.parse(block.text, block.where)
    compile(tree, block.where, "exec")
    # What the pages themselves add; the test below imports it.
    shown = {other.title.removesuffix(".py").replace("/", ".") for other in blocks("python") if other.title}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module not in {"__future__", *shown}:
            names = [alias.name for alias in node.names if f"{node.module}.{alias.name}" not in shown]
            module = __import__(node.module or "", fromlist=names or ["*"])
            assert [name for name in names if not hasattr(module, name)] == []
        elif isinstance(node, ast.Import):
            for alias in node.names:
                __import__(alias.name)


# Files that a page shows are not in the packages: these folders are added to theirs.
CONFTEST = """
import importlib
from pathlib import Path

for name in {packages!r}:
    importlib.import_module(name).__path__.append(str(Path(__file__).parent / name.replace(".", "/")))
"""


@pytest.mark.slow
def test_what_pages_show_passes_the_tests_that_they_show(tmp_path: Path) -> None:
    packages, tests = set[str](), 0
    for block in blocks("python"):
        if EXECUTED.get(block.page) != "tests/docs/test_blocks.py":
            continue
        is_test = block.title.startswith("tests/")
        path = tmp_path / (Path(block.title).name if is_test else block.title)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
        tests += is_test
        if not is_test:
            packages.add(str(Path(block.title).parent).replace("/", "."))
    (tmp_path / "conftest.py").write_text(CONFTEST.format(packages=sorted(packages)))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:torch_chaos"),
            *("--import-mode=importlib", "-W", "error", f"--rootdir={tmp_path}", "-c", "/dev/null"),
            str(tmp_path),
        ],
        cwd=tmp_path, env=environment(PYTHONPATH=str(ROOT)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert tests == 3
    assert " passed" in done.stdout
