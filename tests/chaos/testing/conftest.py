from __future__ import annotations

import pytest

from tests.chaos.testing.projects import Project


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A fresh project."""
    return Project(pytester, monkeypatch)
