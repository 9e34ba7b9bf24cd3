"""A function is named in this process and found again in another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chaos.errors import UserError
from chaos.testing.program import Function
from tests.chaos.testing.projects import ROOT


def trains(steps: int = 7, rate: float = 0.1) -> None:
    print("trains", steps, rate)


def trains_for_so_long() -> None:
    print("trains")


def test_a_function_says_how_many_steps_it_takes() -> None:
    assert Function.of(trains).steps(None) == 7
    assert Function.of(trains).steps(3) == 3
    assert Function.of(trains_for_so_long).steps(3) == 3
    with pytest.raises(UserError) as refused:
        Function.of(trains_for_so_long).steps(None)
    assert str(refused.value) == (
        "trains_for_so_long: how many steps does it commit?\n"
        "  mend: say `steps=N`, or give the function a parameter `steps`"
    )


@pytest.mark.parametrize("nameless", [lambda: None, print, Path])
def test_what_cannot_be_found_by_its_name_is_refused(nameless: object) -> None:
    with pytest.raises(UserError, match="cannot be found by its name in another process"):
        Function.of(nameless)  # type: ignore[arg-type]  # the mistake under test


def test_a_function_within_a_function_is_refused() -> None:
    def local() -> None: ...

    with pytest.raises(UserError, match="define it with `def` at the top level"):
        Function.of(local)


def test_arguments_are_data() -> None:
    with pytest.raises(UserError, match="its arguments go to other processes as JSON"):
        Function.of(trains).script({"rate": object()})


def test_what_the_file_imports_of_its_project_decides_what_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def module(name: str, path: str, **imported: object) -> ModuleType:
        made = ModuleType(name)
        made.__file__ = str(tmp_path / path)
        vars(made).update(imported)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    deep = module("my_layers", "my_layers.py")
    module("my_models", "my_models.py", layers=deep)
    module("my_unused", "my_unused.py")
    library = module("a_library", ".venv/site-packages/a_library.py")
    model = type("Model", (), {"__module__": "my_models"})
    module("test_it", "test_it.py", Model=model, library=library, Function=Function)
    function = Function(str(tmp_path / "test_it.py"), "test_it", "train", True, None)
    assert function.sources(tmp_path) == [
        str(tmp_path / name) for name in ("my_layers.py", "my_models.py", "test_it.py")
    ]
    assert Function.of(trains).sources(ROOT / "chaos") == [str(Path(__file__).resolve())]


FILE = """
from __future__ import annotations
{imports}

def train(steps, words=()):
    print("called", __name__, steps, words)
"""


def run(function: Function, folder: Path, **args: object) -> str:
    script = folder / "program.py"
    script.write_text(function.script(args))
    line = [sys.executable, str(script)]
    done = subprocess.run(
        line, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "import torch" not in done.stderr
    return done.stdout.strip()


def test_the_script_calls_it_in_a_fresh_process(tmp_path: Path) -> None:
    # The folder's name is none that a module can have: only the path leads there.
    file = tmp_path / "my tests" / "test_of_mine.py"
    file.parent.mkdir()
    file.write_text(FILE.format(imports=""))
    function = Function(str(file), "test_of_mine", "train", True, None)
    assert run(function, tmp_path, steps=3, words=["a", "b"]) == "called test_of_mine 3 ['a', 'b']"


def test_relative_imports_work_where_the_name_leads_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "mytests"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "help.py").write_text("")
    (package / "test_it.py").write_text(FILE.format(imports="from . import help"))
    monkeypatch.syspath_prepend(tmp_path)
    function = Function(str(package / "test_it.py"), "mytests.test_it", "train", True, None)
    assert run(function, tmp_path, steps=1) == "called mytests.test_it 1 ()"
