"""`export`: specs in another project's format, the generated pages of docs/, a run for OpenTelemetry."""

from __future__ import annotations

import getpass
import io
import sys
from pathlib import Path
from typing import Any

from chaos.errors import Refused, UserError
from injectors.catalogue import CATALOGUE

SPECS = Path("reports/fidelity")
DOCS = Path("docs")
LEFT_OUT = "LEFT_OUT.md"


def fidelity(out: Path | None, owner: str | None) -> int:
    """Write a spec for each shipped scenario that has an honest counterpart, and why the others have none.

    Raises:
        UserError: the folder cannot be written to.
    """
    from chaos.export.fidelity import export
    from chaos.suite import load, shipped

    folder = out or SPECS
    written, left = 0, ["# Not exported\n", "| scenario | why |", "|---|---|"]
    for name in shipped():
        found = export(name, load(name, CATALOGUE).suite.scenarios, CATALOGUE, owner or getpass.getuser())
        for scenario, spec in found.specs.items():
            _write(folder / f"{name}-{scenario}.yaml", _yaml(spec))
            written += 1
        left += [f"| {name}/{scenario} | {why} |" for scenario, why in found.left_out.items()]
    _write(folder / LEFT_OUT, "\n".join(left) + "\n")
    print(f"{folder}: {written} specs; {len(left) - 3} scenarios have none, {folder / LEFT_OUT} says why")
    return 0


def docs(out: Path | None, check: bool) -> int:
    """Write the generated pages, or with `check` say which are stale.

    Raises:
        UserError: the folder cannot be written to.
    """
    from chaos.export.pages import FRESHEN, pages

    folder, stale = out or DOCS, []
    for name, text in pages().items():
        path = folder / name
        if check:
            stale += [path] if not path.is_file() or path.read_text(encoding="utf-8") != text else []
        else:
            _write(path, text)
    for path in stale:
        print(f"{path}: not what the catalogue says\n  mend: {FRESHEN}", file=sys.stderr)
    return 1 if stale else 0


def otel(folder: Path | None, file: Path | None) -> int:
    """Send a stored run's spans and metrics to a collector, or write them beside each other as JSON lines.

    Raises:
        UserError: it is not a run's folder, or a file cannot be written.
        Refused: the extra is not installed, or the collector did not take everything.
    """
    from chaos.compare.read import started
    from chaos.export.otel.run import telemetry
    from chaos.report.stored import REPORT, read

    if folder is None:
        raise UserError("export otel: of which run?", "name its folder: torch-chaos export otel DIR")
    stored = read(folder)
    told = telemetry(stored, started(folder / REPORT, stored.report).timestamp())
    if told.left_out:
        print(f"no history, so in the metrics alone: {', '.join(told.left_out)}", file=sys.stderr)
    try:
        from chaos.export.otel import files, send
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(("opentelemetry", "google", "requests")):
            raise
        raise Refused(
            f"export otel: {error.name} is not installed", "pip install 'torch-chaos[otel]'"
        ) from None
    if file is None:
        sent = send.send(told)
        print(f"{sent.spans} spans and {sent.metrics} metrics taken by {', '.join(sent.urls)}")
        return 0
    for signal, lines in (("traces", files.traces(told)), ("metrics", files.metrics(told))):
        path = file.with_name(f"{file.stem}.{signal}{file.suffix or '.jsonl'}")
        _write(path, "".join(lines))
        print(path)
    return 0


def _yaml(spec: dict[str, Any]) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.default_flow_style = False
    yaml.width = 100
    text = io.StringIO()
    yaml.dump(spec, text)
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written: {error.strerror}", "choose another place with --out or --file"
        ) from None
