"""The page about what a script or a test may import, drawn from its source.

Read, not imported: half of it needs torch, which takes seconds and is no business of a page.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

MODULES = {
    "recovery": "What a training script imports.",
    "chaos.testing": "What a test imports; [how](../pytest.md).",
    "chaos.testing.session": "What the fixture `torch_chaos` is.",
    "chaos.testing.result": "What a run in a test returns.",
    "chaos.strategies": "What a Hypothesis property draws from; [how](../pytest.md#properties).",
    "chaos.targets.base": "What the file of a target of kind `custom` imports.",
}
# Where a module has more than a reader needs.
ONLY = {"chaos.testing.session": ("TorchChaos",)}
# Torch's own interface, which torch calls.
WITHOUT_MEMBERS = {"ProcessGroup"}
SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:")
# `rank, role: whom it strikes`: the start of an item, not its next line.
ITEM = re.compile(r"([\w*]+(?:, [\w*]+)*): (.*)")
Definition: TypeAlias = ast.ClassDef | ast.FunctionDef


def api_page(made: str) -> Iterator[str]:
    """Lines of the page. `made`: how it is made, for its first line."""
    yield "# Python\n"
    yield f"{made}.\n"
    for module, purpose in MODULES.items():
        yield f"## {module}\n"
        yield f"{purpose}\n"
        for name in ONLY.get(module) or exported(module):
            yield from _entry(name, found(module, name))


@functools.cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def exported(module: str) -> list[str]:
    """The public names of a module: its `__all__`, or what it defines itself."""
    tree = _tree(module)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return sorted(ast.literal_eval(node.value))
    return [node.name for node in tree.body if isinstance(node, Definition) and node.name[0] != "_"]


def found(module: str, name: str) -> Definition:
    """Where a name is defined, followed through the imports of other modules.

    Raises:
        LookupError: it is nowhere.
    """
    tree = _tree(module)
    for node in tree.body:
        if isinstance(node, Definition) and node.name == name:
            return node
    for imported in ast.walk(tree):
        if isinstance(imported, ast.ImportFrom) and imported.module:
            for alias in imported.names:
                if (alias.asname or alias.name) == name:
                    return found(imported.module, alias.name)
    raise LookupError(f"{module} has no {name}")


def _entry(name: str, node: Definition) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        yield f"### `{name}{_signature(node)}`\n"
    else:
        yield f"### `{name}`\n"
    yield from _told(node)
    if isinstance(node, ast.ClassDef) and name not in WITHOUT_MEMBERS:
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and member.name[0] != "_" and ast.get_docstring(member):
                yield f"#### `{name}.{member.name}{_signature(member)}`\n"
                yield from _told(member)


def _signature(node: ast.FunctionDef) -> str:
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if marks & {"property", "cached_property", "functools.cached_property"}:
        return f": {_returned(node)}"
    first, _, others = ast.unparse(node.args).partition(", ")
    if "st.composite" in marks:
        # Hypothesis hands `draw` in, and makes a strategy of the whole.
        return f"({others}) -> st.SearchStrategy[{_returned(node)}]"
    given = others if first in ("self", "cls") else ast.unparse(node.args)
    return f"({given}) -> {_returned(node)}"


def _returned(node: ast.FunctionDef) -> str:
    return ast.unparse(node.returns) if node.returns else "Any"


def _told(node: Definition) -> Iterator[str]:
    """The docstring; what its sections list becomes a list."""
    in_section = False
    for line in inspect.cleandoc(ast.get_docstring(node) or "").splitlines():
        if line in SECTIONS:
            in_section = True
            yield f"**{line.removesuffix(':')}**\n"
        elif in_section and (item := ITEM.fullmatch(line.strip())):
            yield f"- `{item[1]}`: {item[2]}"
        elif in_section and line:
            yield f"  {line.strip()}"
        else:
            yield line
    yield ""
