"""Every verb's help ends with an example, and no example has gone stale: each is read as a command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from chaos.cli.app import app


def verbs(command: Any, words: tuple[str, ...] = ("torch-chaos",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every verb with the words that call it. Any: typer may bring a click of its own."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield words, command
    for name, child in (inner or {}).items():
        yield from verbs(child, (*words, name))


def examples(command: Any) -> list[str]:
    lines = [line.strip() for line in str(command.help or "").splitlines()]
    return [line.removeprefix("Example: ") for line in lines if line.startswith("Example: ")]


VERBS = list(verbs(typer.main.get_command(app)))


@pytest.mark.parametrize(("words", "command"), VERBS, ids=[words[-1] for words, _ in VERBS])
def test_the_help_of_every_verb_has_an_example_that_can_be_typed(
    words: tuple[str, ...], command: Any
) -> None:
    found = examples(command)
    assert found
    for line in found:
        typed = shlex.split(line)
        assert tuple(typed[: len(words)]) == words
        # Reads the words as the command would, and runs nothing.
        context = command.make_context(words[-1], typed[len(words) :])
        assert any(context.params.values()), "an example that shows no argument and no option shows nothing"


def test_a_stale_example_would_be_seen() -> None:
    made = typer.Typer()

    @made.callback()
    def top() -> None: ...

    @made.command()
    def break_(rank: int) -> None:
        """Break it.

        Example: torch-chaos break --rank 1
        """

    ((words, command),) = verbs(typer.main.get_command(made))
    assert examples(command) == ["torch-chaos break --rank 1"]
    with pytest.raises(Exception, match="No such option"):
        command.make_context(words[-1], ["--rank", "1"])
