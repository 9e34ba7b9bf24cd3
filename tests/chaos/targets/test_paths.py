"""Paths and placeholders: a suite works from any folder, and what is not there is said with a hint."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chaos.errors import UserError
from chaos.targets import Setting, Target, custom, paths
from chaos.targets.make import sources_of
from chaos.targets.recovery import RecoveryTarget, Template
from tests.chaos.runs import STANDIN


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    text = paths.filled("{python} {suite}/x {work} {other} {}", Path("/s"), Path("/w"))
    assert text == f"{sys.executable} /s/x /w {{other}} {{}}"


def test_files_of_the_suites_folder_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir("/")
    line = paths.command(["{python}", "train.py", "--out", "train.txt", "-x"], tmp_path, tmp_path)
    assert line == [sys.executable, str(tmp_path / "train.py"), "--out", "train.txt", "-x"]


def test_torchrun_is_the_one_beside_this_interpreter() -> None:
    line = paths.command(["python"], Path("/"), Path("/"))
    assert Path(line[0]).parent == Path(sys.executable).parent


def test_workloads_by_name_and_by_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("")
    assert paths.workload("tiny_gpt", tmp_path).name == "tiny_gpt.py"
    assert paths.workload("mine.py", tmp_path) == tmp_path / "mine.py"
    with pytest.raises(UserError, match=r"no workload 'tiny_gpd'.*\n.*did you mean 'tiny_gpt'"):
        paths.workload("tiny_gpd", tmp_path)


def test_shipped_suites_are_named_the_same_on_every_machine(tmp_path: Path) -> None:
    shipped = paths.shipped_folder() / "smoke.yaml"
    assert paths.recorded_folder(shipped) == "package:suites"
    assert paths.folder_of("package:suites") == paths.shipped_folder()
    assert paths.recorded_folder(tmp_path / "s.yaml") == str(tmp_path.resolve())


def test_a_shipped_workload_is_told_how_long_to_train(tmp_path: Path) -> None:
    def args(**spec: object) -> list[str]:
        setting = Setting({"workload": "tiny_gpt", "steps": 30, **spec}, tmp_path)
        return RecoveryTarget(setting, Template({})).script_args(tmp_path)

    assert args() == ["--steps", "30"]
    assert args(args=["--lr", "1"]) == ["--steps", "30", "--lr", "1"]
    assert args(args=["--steps", "{steps}"]) == ["--steps", "30"]
    (tmp_path / "mine.py").write_text("")
    assert args(workload="mine.py", args=["--n={steps}"]) == ["--n=30"]


def test_a_target_of_the_users_own(tmp_path: Path) -> None:
    target = custom.load(Setting({"file": "target.py"}, STANDIN))
    assert isinstance(target, Target)
    assert target.step_source == "recovery"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no target file"),
        ("raise OSError('disk')", "raises when it is imported: OSError"),
        ("Target = 3", "defines no class `Target`"),
        ("from chaos.targets import Target", "defines no class `Target`"),
    ],
)
def test_a_target_file_that_cannot_be_used(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "t.py").write_text(text)
    with pytest.raises(UserError, match=said):
        custom.load(Setting({"file": "t.py"}, tmp_path))


def test_a_twin_depends_on_the_content_of_the_files(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    spec = {"kind": "command", "argv": ["{python}", "train.py"], "world": 1}
    script.write_text("1")
    first = sources_of([spec, spec], tmp_path)
    script.write_text("2")
    assert list(first.values()) != list(sources_of([spec], tmp_path).values())
    # An empty target is for the plan to refuse.
    assert sources_of([{**spec, "argv": []}], tmp_path) == {}
