from __future__ import annotations

import pytest

from chaos.errors import UserError
from chaos.fuzz.asked import named_faults, named_phases
from chaos.suite.model import PHASES, RECOVERY_PHASES
from injectors.catalogue import CATALOGUE


def test_faults_are_named_one_by_one_or_by_family() -> None:
    assert named_faults("", CATALOGUE) == ()
    assert named_faults("process.kill,process.kill", CATALOGUE) == ("process.kill",)
    family = named_faults("store,process.stop", CATALOGUE)
    assert family[-1] == "process.stop"
    assert [name.partition(".")[0] for name in family[:-1]] == ["store"] * 4


def test_phases_are_named_one_by_one_or_together() -> None:
    assert named_phases("") == ()
    assert named_phases("commit,recovery") == ("commit", *RECOVERY_PHASES)
    assert named_phases("all") == PHASES


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"--faults: unknown fault 'proces'\n  mend: did you mean 'process'\?"
    ):
        named_faults("proces", CATALOGUE)
    with pytest.raises(
        UserError, match="--phases: unknown phase 'backwards'\n  mend: some of recovery, all, data"
    ):
        named_phases("backwards")
