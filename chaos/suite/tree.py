"""A YAML text as plain data beside the line of every key path, so that each error can name its line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing wrong in a suite file. `path` is the key path, empty for the file itself."""

    line: int
    path: Path
    message: str
    mend: str


@dataclass
class Tree:
    """Plain dicts, lists and scalars, and the 1-based line of each key path in the text they came from."""

    data: Any
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of a key path, or of its nearest ancestor that the text contains."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def spelled(path: Path) -> str:
    """A key path as people read it: `scenarios[2].faults[0].when.step`."""
    out = ""
    for part in path:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


def read_tree(text: str) -> Tree:
    """Parse YAML 1.2 text. Syntax errors, duplicate keys and keys that are not strings become problems."""
    # Imported here: it costs 40 ms, which `torch-chaos --help` must not pay.
    from ruamel.yaml import YAML
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    tree = Tree(None)
    try:
        loaded = YAML(typ="rt").load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        key = str(error.problem).split('"')[1] if '"' in str(error.problem) else "?"
        tree.problems.append(Problem(line, (), f"the key {key!r} is there twice", "keep one of the two"))
        return tree
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        what = " ".join(str(error.problem or error.context or "not valid YAML").split())
        mend = "check the indentation, the colons and the quotes of this line and the one above"
        tree.problems.append(Problem(line, (), f"not valid YAML: {what}", mend))
        return tree
    except YAMLError as error:
        what = " ".join(str(error).split())
        tree.problems.append(Problem(1, (), f"not valid YAML: {what}", "save the file as UTF-8 text"))
        return tree
    tree.lines[()] = 1
    tree.data = _plain(loaded, (), tree)
    return tree


def _plain(node: Any, path: Path, tree: Tree) -> Any:
    if isinstance(node, dict):
        out: dict[str, Any] = {}
        for key, value in node.items():
            if not isinstance(key, str):
                line = _line_of(node, key, tree.line(path))
                message = f"the key {key!r} is not a string"
                tree.problems.append(Problem(line, path, message, f'write it in quotes: "{key}"'))
                continue
            here = (*path, str(key))
            tree.lines[here] = _line_of(node, key, tree.line(path))
            out[str(key)] = _plain(value, here, tree)
        return out
    if isinstance(node, list):
        for index in range(len(node)):
            tree.lines[(*path, index)] = _line_of(node, index, tree.line(path))
        return [_plain(value, (*path, index), tree) for index, value in enumerate(node)]
    if node is None or isinstance(node, bool):
        return node
    for kind in (int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return str(node)


def _line_of(node: Any, key: Any, fallback: int) -> int:
    # Keys that come from a merge (`<<: *base`) have no position of their own: the parent's line stands for
    # them.
    try:
        position = node.lc
        return int((position.item(key) if isinstance(node, list) else position.key(key))[0]) + 1
    except (KeyError, AttributeError, TypeError):
        return fallback
