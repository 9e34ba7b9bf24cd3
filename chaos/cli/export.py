"""`export`: specs in another project's format, and the generated pages of docs/."""

from __future__ import annotations

import getpass
import io
import sys
from pathlib import Path
from typing import Any

from chaos.errors import UserError
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
            f"{path}: cannot be written: {error.strerror}", "choose another folder with --out"
        ) from None
