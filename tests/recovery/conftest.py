"""One warm process for all jobs of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recovery.jobs import Launcher


@pytest.fixture(scope="session")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    launcher = Launcher.start(tmp_path_factory.mktemp("jobs"))
    yield launcher
    launcher.stop()
