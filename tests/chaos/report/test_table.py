import io
from collections.abc import Callable

from rich.console import Console

from chaos.report import plain_table, rich_table
from chaos.report.table import seconds
from tests.chaos.report.sample import masked, report


def test_plain_table(golden: Callable[[str, str], None]) -> None:
    golden("table.txt", masked(plain_table(report())))


def test_rich_table(golden: Callable[[str, str], None]) -> None:
    out = io.StringIO()
    Console(file=out, width=150, force_terminal=False, color_system=None).print(rich_table(report()))
    golden("table_rich.txt", masked("\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"))


def test_evidence_with_brackets_is_shown_as_it_is() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(rich_table(report()))
    assert "raised [ValueError] at import" in out.getvalue()


def test_a_narrow_terminal_loses_no_evidence() -> None:
    out = io.StringIO()
    Console(file=out, width=80).print(rich_table(report()))
    assert "stale_state" in out.getvalue()


def test_seconds_are_readable() -> None:
    assert [seconds(0.1744), seconds(0.0004), seconds(1.0), seconds(61.234)] == [
        "174 ms",
        "0 ms",
        "1.00 s",
        "61.23 s",
    ]
