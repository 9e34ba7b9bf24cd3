"""Where a launcher finds itself: flags, torchrun's variables, Slurm's, and errors that say what to add."""

from __future__ import annotations

from pathlib import Path

import pytest

from recovery.places import DEFAULT_PORT, Place, PlaceError, find, first_host, secret_from


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, Place(1, 0, "", 0)),
        (
            {"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_RDZV_ENDPOINT": "a:77"},
            Place(4, 2, "a", 77),
        ),
        (
            {"PET_NNODES": "2", "PET_NODE_RANK": "1", "MASTER_ADDR": "m", "MASTER_PORT": "9"},
            Place(2, 1, "m", 9),
        ),
        (
            {"SLURM_NNODES": "3", "SLURM_NODEID": "0", "SLURM_STEP_NODELIST": "gpu[07-09]"},
            Place(3, 0, "gpu07", DEFAULT_PORT),
        ),
    ],
)
def test_the_environment_says_it(env: dict[str, str], expected: Place) -> None:
    assert find(None, None, None, env) == expected


def test_flags_come_first() -> None:
    env = {"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_RDZV_ENDPOINT": "a:77"}
    assert find(2, 0, "b:5", env) == Place(2, 0, "b", 5)


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        ((2, None, "a:1"), {}, "which of the 2 nodes is this"),
        ((2, 2, "a:1"), {}, "is not one of 0 to 1"),
        ((2, 0, None), {}, "where is node 0"),
        ((2, 0, "a:b"), {}, "is no endpoint"),
        ((None, None, None), {"PET_NNODES": "1:4"}, "is not a whole number"),
    ],
)
def test_what_is_missing_is_said_with_its_remedy(
    arguments: tuple[int | None, int | None, str | None], env: dict[str, str], said: str
) -> None:
    with pytest.raises(PlaceError, match=said) as error:
        find(*arguments, env)
    assert "mend:" in str(error.value)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("gpu01", "gpu01"),
        ("gpu01,gpu02", "gpu01"),
        ("gpu[07-09,12],login1", "gpu07"),
        ("n[3,5]-ib", "n3-ib"),
    ],
)
def test_the_first_of_a_slurm_list(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


def test_a_secret_is_private_and_long(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("0123456789abcdef0123\n")
    path.chmod(0o600)
    assert secret_from(str(path)) == b"0123456789abcdef0123"
    path.chmod(0o640)
    with pytest.raises(PlaceError, match="can be read by others"):
        secret_from(str(path))
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(PlaceError, match="shorter than 16"):
        secret_from(str(path))
    with pytest.raises(PlaceError, match="can't be read"):
        secret_from(str(tmp_path / "none"))
    with pytest.raises(PlaceError, match="needs a secret"):
        secret_from(None)
