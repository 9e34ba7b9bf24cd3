"""`init`: what it finds out, and that what it writes is valid."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from chaos.cli.init import init
from chaos.errors import UserError
from chaos.suite import load
from injectors.catalogue import CATALOGUE


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("optimizer = torch.optim.SGD(p)\n")
    return tmp_path


def written(world: int | None = None, out: str = "chaos.yaml") -> dict[str, object]:
    init(Path("src/train.py"), Path(out), world)
    loaded = load(out, CATALOGUE)
    assert len(loaded.suite.scenarios) == 2
    return loaded.targets[0]


def test_it_is_started_as_the_project_starts_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "Makefile").write_text(
        "train:\n\ttorchrun --standalone --nproc-per-node 2 src/train.py --lr 1e-3\n"
    )
    target = written()
    assert target["world"] == 2
    assert target["argv"] == [
        *(
            "torchrun",
            "--standalone",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "3",
            "src/train.py",
            "--lr",
            "1e-3",
        ),
    ]
    assert "found at Makefile:2: torchrun --standalone" in capsys.readouterr().out
    # What is said on the command line stands above what was found.
    assert written(3, "three.yaml")["argv"] == [
        *("torchrun", "--standalone", "--nproc-per-node", "3", "--max-restarts", "3", "src/train.py"),
    ]


def test_without_a_line_it_is_started_the_usual_way(project: Path) -> None:
    (project / "run.sh").write_text('torchrun --nproc-per-node "$N" src/train.py\n')
    target = written()
    assert (target["world"], target["kind"]) == (4, "command")


def test_a_script_without_an_optimizer_is_followed_by_its_lines(project: Path) -> None:
    (project / "src" / "train.py").write_text("print(f\"it's step {n}\")\nprint(f'step {n} done')\n")
    step = written()["step"]
    assert isinstance(step, dict)
    assert (step["rule"], step["pattern"]) == ("stdout", "it's\\ step\\ (\\d+)")
    text = (project / "chaos.yaml").read_text()
    assert "phase: backward" not in text


TAKES_A_PLACE = (
    "optimizer = torch.optim.SGD(p)\np.add_argument('--save-dir', default='runs/a')\ntorch.save(s, x)\n"
)


def test_no_run_goes_on_from_the_checkpoints_of_another(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "train.py").write_text(TAKES_A_PLACE)
    target = written()
    argv = target["argv"]
    assert isinstance(argv, list)
    assert argv[-3:] == ["src/train.py", "--save-dir", "{work}/a"]
    assert "checkpoints of each run in a folder of its own: --save-dir" in capsys.readouterr().out
    (project / "Makefile").write_text(
        "t:\n\ttorchrun --nproc-per-node=2 src/train.py --save-dir out --lr 1\n"
    )
    argv = written(out="as_found.yaml")["argv"]
    assert isinstance(argv, list)
    assert argv[-5:] == ["src/train.py", "--save-dir", "{work}/out", "--lr", "1"]
    assert "no run goes on from the checkpoints of another" in (project / "as_found.yaml").read_text()


def test_a_script_that_saves_where_it_likes_is_told_of(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "train.py").write_text("optimizer = torch.optim.SGD(p)\ntorch.save(s, 'last.pt')\n")
    argv = written()["argv"]
    assert isinstance(argv, list)
    assert not any("{work}" in word for word in argv)
    assert "The script saves to a place that no argument names" in (project / "chaos.yaml").read_text()
    assert "src/train.py saves to a place that no argument names" in capsys.readouterr().out


def test_a_restart_under_torchrun_gets_a_store_of_its_own(project: Path) -> None:
    assert written()["env"] == {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    # As the shipped suite for torchrun has it.
    shipped = load("torchrun", CATALOGUE).targets[0]["env"]
    assert shipped["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"


def test_a_script_of_the_runtime_is_told_its_steps_as_it_wants(project: Path) -> None:
    (project / "src" / "train.py").write_text("import recovery\np.add_argument('--max-steps')\n")
    target = written()
    assert (target["kind"], target["args"]) == ("recovery", ["--max-steps", "{steps}"])
    assert "mend this line" not in (project / "chaos.yaml").read_text()
    (project / "src" / "train.py").write_text("import recovery\np.add_argument('--checkpoints')\n")
    assert written(out="saving.yaml")["args"] == [
        *("--steps", "{steps}", "--checkpoints", "{work}/checkpoints"),
    ]


@pytest.mark.parametrize(
    ("there", "file"),
    [
        (".github/x", ".github/workflows/torch-chaos.yml"),
        (".gitlab-ci.yml", "torch-chaos.gitlab-ci.yml"),
        ("x", None),
    ],
)
def test_the_ci_file_is_of_the_kind_that_the_project_has(project: Path, there: str, file: str | None) -> None:
    (project / there).parent.mkdir(exist_ok=True)
    (project / there).write_text("")
    (project / "requirements.txt").write_text("torch\n")
    init(Path("src/train.py"), Path("chaos.yaml"), None, "auto")
    made = [path for path in project.rglob("*.yml") if path != project / there]
    assert made == ([project / file] if file else [])
    for path in made:
        text = path.read_text()
        assert isinstance(yaml.safe_load(text), dict)
        assert "pip install -r requirements.txt torch-chaos" in text
        assert "torch-chaos run chaos.yaml --format plain" in text


def test_a_ci_file_that_is_there_is_left(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = project / "torch-chaos.gitlab-ci.yml"
    mine.write_text("mine\n")
    init(Path("src/train.py"), Path("chaos.yaml"), None, "gitlab")
    assert mine.read_text() == "mine\n"
    assert "is already there and was left as it is" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"chaos\.yaml is already there"):
        init(Path("src/train.py"), Path("chaos.yaml"), None, "gitlab")
