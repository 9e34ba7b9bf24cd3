"""`fuzz`: what it refuses, what it says, and its exit code. No process is started here."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos.cli import fuzz as verbs
from chaos.cli.fuzz import Limits, Wanted, code_of, fuzz
from chaos.errors import Exit, UserError
from chaos.fuzz.log import NAME, Log
from chaos.fuzz.seen import Found, Seen
from chaos.plan import Plan
from tests.chaos.fuzz.spaces import SMALL
from tests.chaos.fuzz.stand_in import StandIn, StandInBench, has


def small(folder: Path) -> Path:
    (folder / "small.yaml").write_text(SMALL)
    return folder / "small.yaml"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"for_": "soon"}, "--for: 'soon' is not a duration"),
        ({"shrink_budget": "0"}, "--shrink-budget: '0' is not a duration"),
        ({"repeats": "3/2"}, "--repeats: '3/2': k=3 of n=2"),
        ({"repeats": "twice"}, "--repeats: 'twice': invalid literal"),
        ({"faults": "proces"}, "--faults: unknown fault 'proces'"),
        ({"phases": "back"}, "--phases: unknown phase 'back'"),
        ({"only": "nothing"}, "nothing can be drawn: no scenario has a fault"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, wanted: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        fuzz(Wanted(str(small(tmp_path)), out=tmp_path / "out", **wanted))
    assert not (tmp_path / "out").exists()


def test_a_job_that_this_machine_refuses_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(plan: Plan, folder: Path) -> None:
        if plan.scenarios[0].target.get("spares") == 0:
            raise UserError("no room for it", "make room")

    monkeypatch.setattr(verbs.preflight, "check", refuse)
    path = small(tmp_path)
    path.write_text(
        SMALL + "  - name: no_spare\n    target: {spares: 0}\n"
        "    faults: [{fault: process.kill, where: {rank: 1}, when: {step: 5, phase: forward}}]\n"
    )
    # An end before the beginning: nothing is run.
    assert fuzz(Wanted(str(path), out=tmp_path / "out", for_="0s")) == Exit.PASSED
    said = capsys.readouterr().out
    assert "left out: tiny_gpt-2: no room for it; make room" in said
    assert "0 of 11 cells reached" in said
    path.write_text(SMALL.replace("spares: 1", "spares: 0"))
    with pytest.raises(UserError, match="no job of it can run here: tiny_gpt: no room for it"):
        fuzz(Wanted(str(path), out=tmp_path / "other"))


def test_the_folder_keeps_its_seed_and_its_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(small(tmp_path)), tmp_path / "out"
    fuzz(Wanted(path, out=out, for_="0s", seed=5))
    assert "seed 5; everything goes to" in capsys.readouterr().out
    fuzz(Wanted(path, out=out, for_="0s"))
    said = capsys.readouterr().out
    assert f"going on after round 0 of {out}, seed 5" in said
    assert "other cells are drawn" not in said
    fuzz(Wanted(path, out=out, for_="0s", phases="commit"))
    assert "other cells are drawn from now on" in capsys.readouterr().out
    with pytest.raises(UserError, match="there is a search with seed 5 here, and not 6"):
        fuzz(Wanted(path, out=out, seed=6))
    (tmp_path / "small.yaml").write_text(SMALL.replace("suite: small", "suite: other"))
    with pytest.raises(UserError, match="there is a search with suite 'small' here, and not 'other'"):
        fuzz(Wanted(path, out=out))


def test_a_half_written_line_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = str(small(tmp_path)), tmp_path / "out"
    fuzz(Wanted(path, out=out, for_="0s"))
    with (out / NAME).open("a") as file:
        file.write('{"round": 1, "jo')
    fuzz(Wanted(path, out=out, for_="0s"))
    assert f"the last line of {out}/fuzz.jsonl was half written" in capsys.readouterr().out
    with Log(out) as log:
        assert len(log.starts) == 2


def test_the_exit_code_says_the_worst() -> None:
    found = Found("1-x", "x", ("process.kill",))
    assert code_of(Seen()) == Exit.PASSED
    assert code_of(Seen(rounds=2, categories=Counter(PASS=1, INCONCLUSIVE=1))) == Exit.PASSED
    assert code_of(Seen(rounds=1, categories=Counter(INCONCLUSIVE=1))) == Exit.INCONCLUSIVE
    assert code_of(Seen(rounds=2, categories=Counter(PASS=1, FLAKY=1))) == Exit.INCONCLUSIVE
    assert code_of(Seen(rounds=2, categories=Counter(PASS=1, FAILED=1), found=[found])) == Exit.VIOLATED


def test_limits() -> None:
    forever = float("inf")
    assert Limits(2, forever, False).allow([])
    assert not Limits(0, forever, False).allow([])
    assert not Limits(None, 0.0, False).allow([])


def test_what_a_killed_search_left_to_be_undone_is_kept(tmp_path: Path) -> None:
    for name in ("earlier-1/undo.jsonl", "shared-twins/a", "undo.jsonl"):
        (tmp_path / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "work" / name).write_text("")
    verbs._tidied(tmp_path / "work")
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["earlier-1"]
    shutil.rmtree(tmp_path / "work" / "earlier-1")
    verbs._tidied(tmp_path / "work")
    assert not (tmp_path / "work").exists()


# -- a whole search, on a stand-in for the bench


def searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run: StandIn, left: list[str] | None = None, **wanted: Any
) -> int:
    monkeypatch.setattr(verbs, "Bench", StandInBench(run, left))
    monkeypatch.setattr(verbs.preflight, "check", lambda plan, where: None)
    return fuzz(Wanted(str(small(folder)), out=folder / "out", **wanted))


def test_a_search_ends_with_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = searched(tmp_path, monkeypatch, StandIn(has("collective.hang")), rounds=25, stop_at_first=True)
    assert code == Exit.VIOLATED
    said = capsys.readouterr().out.splitlines()
    (finding,) = (tmp_path / "out" / "findings").iterdir()
    number = int(finding.name.partition("-")[0])
    assert [line.split()[1] for line in said if line.startswith("round ")] == [
        str(n) for n in range(1, number + 1)
    ]
    assert said[-3].startswith(
        f"FOUND {finding.name}: replicas_agree does not hold with collective.hang (nothing smaller fails, in"
    )
    assert said[-2:] == [
        f"    replay: torch-chaos replay {finding}/plan.json",
        f"    reports: {tmp_path}/out/rounds/{number:04}",
    ]
    # Taken up again it goes on, although there is a finding; removed, it is dealt with.
    assert searched(tmp_path, monkeypatch, StandIn(), rounds=1, stop_at_first=True) == Exit.VIOLATED
    assert f"round {number + 1} " in capsys.readouterr().out
    shutil.rmtree(finding)
    assert searched(tmp_path, monkeypatch, StandIn(), rounds=1) == Exit.PASSED
    assert "FOUND" not in capsys.readouterr().out


def test_what_is_flaky_is_shown_and_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = StandIn(lambda scenario, before: scenario.name == "round_2" and before == 0)
    assert searched(tmp_path, monkeypatch, run, rounds=3) == Exit.INCONCLUSIVE
    said = capsys.readouterr().out
    assert "3 rounds: 1 FLAKY, 2 PASS" in said
    assert "FLAKY, round 2: 1 of 3 runs failed: replicas_agree: they differ" in said


def test_a_job_that_never_runs_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = StandIn(verdict="ERROR", fired=False)
    assert searched(tmp_path, monkeypatch, run, for_="1h") == Exit.INCONCLUSIVE
    assert "torch-chaos: the job does not run: " in capsys.readouterr().err
    assert len(run.plans) == verbs.UNTESTED


def test_an_interruption_keeps_all_and_what_is_left_over_outranks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert searched(tmp_path, monkeypatch, StandIn(killed_at=3), for_="1h") == Exit.INTERRUPTED
    said = capsys.readouterr().out
    assert f"interrupted; all that was found so far is in {tmp_path}/out" in said
    assert "2 rounds: 2 PASS" in said
    code = searched(tmp_path, monkeypatch, StandIn(killed_at=1), ["process 7"], for_="1h")
    assert code == Exit.LEFTOVERS
    assert "LEFT OVER: process 7" in capsys.readouterr().out
