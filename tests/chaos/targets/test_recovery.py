"""Which files decide what a script under `recovery` trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.targets.base import Setting
from chaos.targets.make import sources_of
from chaos.targets.recovery import RecoveryTarget, Template


def spec(**more: object) -> dict[str, object]:
    return {"kind": "recovery", "workload": "train.py", "world": 2, "steps": 3, **more}


def test_sources_are_among_them_and_a_change_is_seen(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import model")
    (tmp_path / "model.py").write_text("old")
    named = spec(sources=["model.py"])
    files = RecoveryTarget(Setting(named, tmp_path), Template({})).files()
    assert files[:2] == [tmp_path / "train.py", tmp_path / "model.py"]
    assert {"run.py", "launch.py"} <= {path.name for path in files[2:]}
    before = sources_of([named], tmp_path)
    (tmp_path / "model.py").write_text("new")
    assert sources_of([named], tmp_path) != before


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with pytest.raises(UserError) as refused:
        RecoveryTarget(Setting(spec(sources=["model.py"]), tmp_path), Template({})).check()
    assert str(refused.value) == f"there is no source 'model.py'\n  mend: paths start at {tmp_path}"
