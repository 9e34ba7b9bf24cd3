"""What can be found out about a training script without asking: its command line, its ranks, its steps. Pure.

Nothing is guessed that is not written somewhere; what is found is told with the place where it stands.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
WORLD_FLAGS = ("--nproc-per-node", "--nproc_per_node")
NODE_FLAGS = ("--nnodes",)
_OPERATORS = frozenset(("&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1"))
_STEPS_FLAG = re.compile(
    r"""add_argument\(\s*["'](--(?:max[-_]|num[-_]|train[-_])?(?:steps|iters|iterations))["']"""
)
_OPTIMIZER = re.compile(r"\boptim\b|\boptimizer\w*\.step\(|\bopt\.step\(")
_CHECKPOINTS = re.compile(
    r"--(?:checkpoints?|ckpts?|snapshots?|(?:checkpoints?|ckpts?|snapshots?|save|output)[-_](?:dir|directory|folder|path|file))"
)
_SAVES = re.compile(r"\b(?:torch|dcp|checkpoint)\.save\(")
_STEP_LINE = re.compile(
    r"""(?P<quote>["'])(?P<before>(?:(?!(?P=quote))[^{}])*?\b(?:step|iter|iteration)s?\b[ :=#]*)\{[^{}]*\}""",
    re.I,
)


@dataclass(frozen=True)
class Command:
    """A command line that starts the script. `world`: None where it is no number; `place`: `file:line`."""

    argv: tuple[str, ...]
    world: int | None
    place: str


@dataclass(frozen=True)
class Checkpoints:
    """The argument that says where checkpoints go. `name`: the last part of its default, or a plain word."""

    flag: str
    name: str


@dataclass(frozen=True)
class Script:
    """What the script itself tells.

    Attributes:
        optimizer: whether it steps an optimizer, which is what counts as a step by default.
        steps_flag: the argument that sets how many steps it makes, if it has one.
        pattern: of a line that it prints for each step, with a group for the step's number.
        checkpoints: the argument for their place, if it has one.
        saves: whether it saves anything.
    """

    optimizer: bool
    steps_flag: str | None
    pattern: str | None
    checkpoints: Checkpoints | None = None
    saves: bool = False


def commands(texts: Mapping[str, str], script: str) -> list[Command]:
    """The command lines that start the script by torchrun, in the order of the files.

    Args:
        texts: shell scripts, makefiles, workflows and documents, by name.
        script: the script's file name, without a folder.
    """
    found = [one for name, text in texts.items() for one in _in_text(name, text, script)]
    return [*(one for one in found if one.world is not None), *(one for one in found if one.world is None)]


def _in_text(name: str, text: str, script: str) -> Iterator[Command]:
    for number, line in _joined(text):
        if not any(launcher in line for launcher in LAUNCHERS):
            continue
        # A make recipe may be silenced by an @.
        words = [word.lstrip("@") for word in _words(line)]
        start = next((i for i, word in enumerate(words) if word.rpartition("/")[2] in LAUNCHERS), None)
        if start is None:
            continue
        argv = _command(words[start:])
        if any(word.rpartition("/")[2] == script for word in argv):
            yield _sized(Command(tuple(argv), None, f"{name}:{number}"))


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their continuations; the number is that of the first."""
    first = 1
    parts: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not parts:
            first = number
        parts.append(line.rstrip().removesuffix("\\"))
        if not line.rstrip().endswith("\\"):
            yield first, " ".join(parts)
            parts = []
    if parts:
        yield first, " ".join(parts)


def _words(line: str) -> list[str]:
    """A line's words as a shell takes them; none where its quotes don't match, as in prose."""
    try:
        return shlex.split(line.replace("`", " "), comments=True)
    except ValueError:
        return []


def _command(words: list[str]) -> list[str]:
    """The words up to the first that belongs to the shell."""
    kept = []
    for word in words:
        if word in _OPERATORS:
            break
        kept.append(word.removesuffix(";"))
        if word.endswith(";"):
            break
    return kept if kept[0].startswith("torchrun") or "/" in kept[0] else ["python", "-m", *kept]


def _sized(command: Command) -> Command:
    """The command with its world, if that is a number and the job is on one node."""
    nodes = _value(command.argv, NODE_FLAGS)
    ranks = _value(command.argv, WORLD_FLAGS)
    if nodes not in (None, "1") or ranks is None or not ranks.isdigit() or int(ranks) < 1:
        return command
    return replace(command, world=int(ranks))


def _value(argv: tuple[str, ...], flags: tuple[str, ...]) -> str | None:
    for position, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in flags:
            return value if equals else next(iter(argv[position + 1 : position + 2]), None)
    return None


def script_of(text: str) -> Script:
    """Read a script."""
    flag = _STEPS_FLAG.search(text)
    line = _STEP_LINE.search(text)
    return Script(
        optimizer=_OPTIMIZER.search(text) is not None,
        steps_flag=flag[1] if flag else None,
        pattern=rf"{re.escape(line['before'])}(\d+)" if line else None,
        checkpoints=_checkpoints(text),
        saves=_SAVES.search(text) is not None,
    )


def _checkpoints(text: str) -> Checkpoints | None:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in calls:
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"):
            continue
        words = [word for argument in call.args if (word := _text(argument)) is not None]
        flag = next((word for word in words if _CHECKPOINTS.fullmatch(word)), None)
        told = {keyword.arg: keyword.value for keyword in call.keywords}
        kind = told.get("type")
        # A switch, or a number such as the interval between two.
        number = isinstance(kind, ast.Name) and kind.id in ("int", "float", "bool")
        if flag is not None and "action" not in told and not number:
            default = _text(told["default"]) if "default" in told else None
            return Checkpoints(flag, last_part(default or "checkpoints"))
    return None


def _text(node: ast.expr) -> str | None:
    """A literal text, or that in `Path("...")`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def last_part(path: str) -> str:
    """A path's last part, which says whether it is a file or a folder."""
    return path.rstrip("/").rpartition("/")[2].strip(".") or "checkpoints"


def redirected(argv: Sequence[str], checkpoints: Checkpoints) -> list[str]:
    """A command line whose checkpoints go to `{work}`, a folder that exists for one run."""
    kept = list(argv)
    for position, word in enumerate(kept):
        name, equals, value = word.partition("=")
        if name != checkpoints.flag:
            continue
        if equals:
            kept[position] = f"{name}={{work}}/{last_part(value)}"
        elif position + 1 < len(kept):
            kept[position + 1] = f"{{work}}/{last_part(kept[position + 1])}"
        return kept
    return [*kept, checkpoints.flag, f"{{work}}/{checkpoints.name}"]
