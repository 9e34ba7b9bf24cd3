from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from injectors.fault import FaultError
from injectors.roles import ROLES, check_where, resolve

LIVE = {1: 100, 3: 300, 2: 200}


@dataclass
class Reached:
    rank: int | None = None
    fields: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("role", "reached", "expected"),
    [
        ("lowest_live", Reached(3), 1),
        ("store_host", Reached(3), 0),
        ("store_host", Reached(3, {"store_host": 2}), 2),
        ("store_host", Reached(3, {"store_host": None}), None),
        ("transfer_source", Reached(3, {"role": "source", "sources": [2, 3]}), 3),
        ("transfer_source", Reached(3, {"role": "target", "sources": [2]}), None),
        ("transfer_source", Reached(None, {"sources": [2]}), 2),
        ("transfer_target", Reached(1, {"role": "target"}), 1),
        ("transfer_target", Reached(None, {}), None),
        ("replacement", Reached(2, {"fresh": True}), 2),
        ("replacement", Reached(2), None),
        ("replacement", Reached(None, {"replacements": [3]}), 3),
        ("detected", Reached(None, {"rank": 0}), 0),
        ("detected", Reached(None, {"rank": None}), None),
    ],
)
def test_a_role_is_resolved_at_the_point(role: str, reached: Reached, expected: int | None) -> None:
    assert resolve({"role": role}, reached, LIVE) == expected


def test_a_rank_is_itself() -> None:
    assert resolve({"rank": 5}, Reached(), LIVE) == 5


def test_no_rank_alive_has_no_lowest() -> None:
    assert resolve({"role": "lowest_live"}, Reached(), {}) is None


@pytest.mark.parametrize("role", ROLES)
def test_every_role_is_an_address(role: str) -> None:
    check_where({"role": role})


@pytest.mark.parametrize(
    "where", [{}, {"rank": -1}, {"rank": "random"}, {"role": "leader"}, {"rank": 1, "role": "detected"}]
)
def test_anything_else_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(FaultError, match="is no address"):
        check_where(where)


def test_an_unknown_role_raises() -> None:
    with pytest.raises(FaultError, match="unknown role 'leader'"):
        resolve({"role": "leader"}, Reached(), LIVE)
