from __future__ import annotations

import json
from pathlib import Path

import pytest

from injectors.fault import FaultError
from injectors.gpu import claim


def test_of_two_only_one_gets_it(tmp_path: Path) -> None:
    path = str(tmp_path / "claim")
    claim.take(path, "a")
    with pytest.raises(FaultError, match="another run of torch-chaos"):
        claim.take(path, "b")
    assert (claim.is_ours(path, "a"), claim.is_ours(path, "b")) == (True, False)


def test_only_its_owner_gives_it_back_and_may_do_so_twice(tmp_path: Path) -> None:
    path = str(tmp_path / "claim")
    claim.take(path, "a")
    claim.give_back(path, "b")
    assert claim.is_ours(path, "a")
    for _ in range(2):
        claim.give_back(path, "a")
        assert list(tmp_path.iterdir()) == []
    claim.take(path, "b")


def test_the_claim_of_a_tool_that_is_gone_names_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "claim"
    path.write_text(json.dumps({"token": "a", "pid": 1, "start_ticks": -1}))
    with pytest.raises(FaultError, match="torch-chaos rollback"):
        claim.refuse_if_taken(str(path))


def test_nobody_has_what_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "claim")
    claim.refuse_if_taken(path)
    assert not claim.is_ours(path, "a")
