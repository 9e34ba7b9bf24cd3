from __future__ import annotations

import pytest

from chaos.suite.guess import Checkpoints, commands, redirected, script_of


@pytest.mark.parametrize(
    ("text", "argv", "world"),
    [
        ("torchrun --nproc-per-node 2 train.py --lr 1", "torchrun --nproc-per-node 2 train.py --lr 1", 2),
        (
            "\t@torchrun --nproc_per_node=8 src/train.py && echo done",
            "torchrun --nproc_per_node=8 src/train.py",
            8,
        ),
        ("      - run: torchrun --standalone train.py | tee log", "torchrun --standalone train.py", None),
        ("    $ `torchrun --nproc-per-node 2 train.py`", "torchrun --nproc-per-node 2 train.py", 2),
        (
            "x=1 python -m torch.distributed.run \\\n  --nproc-per-node 3 \\\n  train.py > log",
            "python -m torch.distributed.run --nproc-per-node 3 train.py",
            3,
        ),
        ("torchrun --nproc-per-node gpu train.py", "torchrun --nproc-per-node gpu train.py", None),
        (
            "torchrun --nnodes 2 --nproc-per-node 4 train.py",
            "torchrun --nnodes 2 --nproc-per-node 4 train.py",
            None,
        ),
        ("torchrun --nproc-per-node 2 train.py; ls", "torchrun --nproc-per-node 2 train.py", 2),
    ],
)
def test_a_command_line_is_found_wherever_it_stands(text: str, argv: str, world: int | None) -> None:
    found = commands({"Makefile": f"# first\n{text}\n"}, "train.py")
    (one,) = found
    assert (" ".join(one.argv), one.world, one.place) == (argv, world, "Makefile:2")


@pytest.mark.parametrize(
    "text",
    [
        "torchrun --nproc-per-node 2 other.py",
        "python train.py",
        "start it by torchrun, don't call train.py",
        "# torchrun --nproc-per-node 2 train.py",
        "torchrun",
        "",
    ],
)
def test_nothing_is_made_up(text: str) -> None:
    assert commands({"README.md": text}, "train.py") == []


def test_one_with_a_number_of_ranks_comes_first() -> None:
    texts = {"a.sh": "torchrun train.py", "b.sh": "torchrun --nproc-per-node 2 train.py"}
    assert [one.place for one in commands(texts, "train.py")] == ["b.sh:1", "a.sh:1"]


@pytest.mark.parametrize(
    ("text", "optimizer", "flag", "pattern"),
    [
        ("opt = torch.optim.SGD(p)\n", True, None, None),
        ('parser.add_argument("--max-steps", type=int)', False, "--max-steps", None),
        ("print(f'step {step} loss {loss}')", False, None, r"step\ (\d+)"),
        ('log.info(f"[train] Iteration: {i}/{n}")', False, None, r"\[train\]\ Iteration:\ (\d+)"),
        ('print(f"epoch {epoch} stepwise")', False, None, None),
        ("", False, None, None),
    ],
)
def test_what_a_script_tells(text: str, optimizer: bool, flag: str | None, pattern: str | None) -> None:
    found = script_of(text)
    assert (found.optimizer, found.steps_flag, found.pattern) == (optimizer, flag, pattern)


@pytest.mark.parametrize(
    ("argument", "flag", "name"),
    [
        ('"--checkpoints", type=Path, required=True', "--checkpoints", "checkpoints"),
        ('"--checkpoint", type=Path, default=Path("out/last.pt")', "--checkpoint", "last.pt"),
        ('"-s", "--save_dir", default="runs/"', "--save_dir", "runs"),
        ('"--output-dir", default=None', "--output-dir", "checkpoints"),
        ('"--snapshot-path", default=DEFAULT', "--snapshot-path", "checkpoints"),
        ('"--ckpt-dir", default="."', "--ckpt-dir", "checkpoints"),
    ],
)
def test_where_checkpoints_go(argument: str, flag: str, name: str) -> None:
    assert script_of(f"p.add_argument({argument})\n").checkpoints == Checkpoints(flag, name)


@pytest.mark.parametrize(
    "text",
    [
        'p.add_argument("--checkpoint", action="store_true")',
        'p.add_argument("--checkpoints", type=int)',
        'p.add_argument("--checkpoint-every")',
        'p.add_argument("--data-dir")',
        'add_argument("--checkpoint")',
        'p.add_argument("--checkpoint"',
    ],
)
def test_what_says_no_place_is_none(text: str) -> None:
    assert script_of(text).checkpoints is None


def test_a_script_that_saves_is_known() -> None:
    assert script_of("torch.save(state, 'x.pt')").saves
    assert not script_of("state = torch.load('x.pt')").saves


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("torchrun t.py --ckpt a/b/ --lr 1", "torchrun t.py --ckpt {work}/b --lr 1"),
        ("torchrun t.py --ckpt=/data/c.pt", "torchrun t.py --ckpt={work}/c.pt"),
        ("torchrun t.py --lr 1", "torchrun t.py --lr 1 --ckpt {work}/last.pt"),
    ],
)
def test_a_command_line_whose_checkpoints_have_a_place_of_their_own(given: str, made: str) -> None:
    assert redirected(given.split(), Checkpoints("--ckpt", "last.pt")) == made.split()
