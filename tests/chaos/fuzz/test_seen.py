from __future__ import annotations

import json

import pytest

from chaos.fuzz.seen import FAILED, FLAKY, INCONCLUSIVE, Found, Round, Seen
from chaos.fuzz.space import Aim
from chaos.report.coverage import Cell

KILL, STOP = Cell("process.kill", "backward", "rank 0"), Cell("process.stop", "forward", "another rank")
FOUND = Found("0002-replicas_agree", "replicas_agree", ("process.kill",), "nothing smaller fails")


def test_a_round_is_the_same_after_it_was_a_line() -> None:
    one = Round(
        2, "job", (KILL, STOP), (KILL,), (KILL,), FAILED, 2, 3, "why", "ab12", found=FOUND, wall_s=1.5
    )
    assert Round.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert Round.from_dict(Round(1, "job", (KILL,)).to_dict()) == Round(1, "job", (KILL,))
    with pytest.raises((KeyError, TypeError)):
        Round.from_dict({"round": 1})


def test_rounds_add_up() -> None:
    seen = Seen.of([Round(1, "job", (KILL, STOP), (KILL,), (KILL,)), Round(2, "job", (KILL, KILL), (KILL,))])
    assert seen.rounds == 2
    assert seen.tries == {Aim("job", KILL): 2, Aim("job", STOP): 1}
    assert seen.reached == {Aim("job", KILL): 2}
    assert [one.number for one in seen.corpus] == [1]
    assert seen.new_of("job", [KILL, STOP]) == (STOP,)
    assert seen.new_of("other", [KILL]) == (KILL,)


def test_a_failing_job_says_little_of_what_can_be_reached() -> None:
    seen = Seen.of(Round(n, "job", (KILL,), category=FAILED) for n in range(1, 5))
    assert not seen.in_vain(Aim("job", KILL))
    seen = Seen.of(Round(n, "job", (KILL,), category=FLAKY) for n in range(1, 7))
    assert seen.in_vain(Aim("job", KILL)), "but at some time it must do"
    seen = Seen.of(Round(n, "job", (KILL,), category=INCONCLUSIVE) for n in range(1, 3))
    assert seen.in_vain(Aim("job", KILL))


def test_what_nobody_can_reach_is_not_tried_for_every_role() -> None:
    other = [Cell(KILL.fault, KILL.phase, role) for role in ("another rank", "lowest_live", "replacement")]
    seen = Seen.of(Round(n, "job", (cell,), category=INCONCLUSIVE) for n, cell in enumerate(other, 1))
    assert seen.in_vain(Aim("job", KILL))
    assert not seen.in_vain(Aim("job", Cell(KILL.fault, "forward", KILL.role)))
    seen.add(Round(4, "job", (other[0],), (other[0],), (other[0],)))
    assert not seen.in_vain(Aim("job", KILL)), "one role can be struck then, so this one may be, too"


def test_a_finding_explains_what_fails_alike_and_has_all_of_its_faults() -> None:
    seen = Seen(found=[FOUND])
    assert seen.explained(["replicas_agree", "other"], ["process.stop", "process.kill"]) == FOUND
    assert seen.explained(["replicas_agree"], ["process.stop"]) is None
    assert seen.explained(["state_equals_twin"], ["process.kill"]) is None
    two = Found("x", "replicas_agree", ("process.kill", "process.kill"))
    assert not two.explains(["replicas_agree"], ["process.kill"])
