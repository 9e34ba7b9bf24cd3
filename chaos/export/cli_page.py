"""The page about the command line, drawn from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from chaos.export.cells import cell


def cli_page(made: str) -> Iterator[str]:
    """Lines of the page. `made`: how it is made, for its first line."""
    # Here, not above: the commands import this package.
    from chaos.cli.app import EPILOG, app

    top: Any = typer.main.get_command(app)
    yield "# Command line\n"
    yield f"{made}. `torch-chaos VERB --help` says the same.\n"
    yield f"{EPILOG}\n"
    yield "| verb | |"
    yield "|---|---|"
    for name, command in top.commands.items():
        yield f"| [`{name}`](#{name}) | {cell(_paragraphs(command)[0])} |"
    yield ""
    for name, command in top.commands.items():
        yield from _verb(name, command)


def _paragraphs(command: Any) -> list[str]:
    return str(command.help or "").split("\n\n")


def _verb(name: str, command: Any) -> Iterator[str]:
    # Any: typer may bring a click of its own, so its classes have no one name.
    context = typer.Context(command, info_name=name)
    places = [item.metavar or item.name.upper() for item in command.params if _is_argument(item)]
    yield f"## {name}\n"
    yield f"    torch-chaos {name} [OPTIONS] {' '.join(places)}".rstrip() + "\n"
    for paragraph in _paragraphs(command):
        before, example, line = paragraph.partition("Example: ")
        yield f"Example: `{line}`\n" if example and not before else f"{cell(paragraph)}\n"
    records = [(item, item.get_help_record(context)) for item in command.params]
    shown = [(item, record) for item, record in records if record is not None]
    if shown:
        yield "| | |"
        yield "|---|---|"
        for item, (spelled, told) in shown:
            yield f"| `{_spelled(item, spelled)}` | {_told(told)} |"
        yield ""


def _is_argument(item: Any) -> bool:
    return bool(item.param_type_name == "argument")


def _spelled(item: Any, record: str) -> str:
    if _is_argument(item):
        return str(item.metavar or item.name.upper())
    # `--format <rich|json|plain>`: a bar would end the cell.
    return record.replace("<", "{").replace(">", "}").replace("|", ",")


def _told(text: str) -> str:
    # `[default: 1; x>=1]` as code: brackets and signs would be Markdown's and HTML's.
    said, bracket, rest = text.partition("  [")
    return cell(said).replace("<", "&lt;") + (f" `[{cell(rest)}`" if bracket else "")
