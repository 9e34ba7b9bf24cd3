"""`torch-chaos simulate protocol`, as a command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chaos.cli import simulate
from chaos.errors import Exit
from chaos.simulation import search
from chaos.simulation.run import run_plan
from tests.chaos.runs import chaos
from tests.chaos.simulation.mutants import MUTANTS, hunt

PLANS = Path(__file__).parent / "plans"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search_with_one_process_or_two(tmp_path: Path) -> None:
    records = []
    for jobs in (1, 2):
        path = tmp_path / f"{jobs}.md"
        done = chaos(
            *("simulate", "protocol", "--schedules", 300, "--seed", 4, "--jobs", jobs, "--record", path)
        )
        assert done.returncode == Exit.PASSED, done.stdout + done.stderr
        assert "no violation" in done.stdout
        records.append(path.read_text())
    timeless = [re.sub(r"--jobs \d|.* s with .*|.*core's second.*", "", record) for record in records]
    assert timeless[0] == timeless[1]


@pytest.mark.slow
def test_time_is_a_bound_and_the_seed_is_told() -> None:
    done = chaos("simulate", "protocol", "--for", "1s", "--world", 3)
    assert done.returncode == Exit.PASSED, done.stdout
    assert re.search(r"simulate protocol: seed \d+, mode mixed", done.stdout)
    assert "3 ranks" not in done.stderr


@pytest.mark.slow
def test_a_plan_is_replayed_with_its_history() -> None:
    path = next(iter(sorted(PLANS.glob("*.json"))))
    done = chaos("simulate", "protocol", "--plan", path)
    assert done.returncode == Exit.PASSED, done.stderr
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events[-1] in ("job.end", "worker.exit")
    assert "events, the job ended: finished" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--for", "soon"), ("--plan", "/nowhere.json")])
def test_what_makes_no_sense_is_refused(arguments: tuple[str, str]) -> None:
    done = chaos("simulate", "protocol", *arguments)
    assert done.returncode == Exit.USAGE
    assert "mend:" in done.stderr


def test_a_violation_is_shrunk_kept_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutant = next(one for one in MUTANTS if one.name == "barrier_key_is_reused")
    found, schedules = hunt(mutant, seed=1)
    assert found is not None
    # The verb has the sound machines, with which nothing fails again: the plan is kept as it was found.
    assert simulate.tell(found, schedules - 1, tmp_path) == Exit.VIOLATED
    text = capsys.readouterr().out
    (path,) = tmp_path.glob("*.json")
    assert "VIOLATED generation_moves_forward" in text
    assert f"replay: torch-chaos simulate protocol --plan {path}" in text
    plan = simulate.read_plan(path)
    assert str(run_plan(plan, mutant.machines).violation) == str(found.violation)


@pytest.mark.slow
def test_a_guided_search_meets_more_than_an_unguided_one() -> None:
    met = {}
    for mode in ("uniform", "pct", "guided"):
        tally = search.chunk(search.Options(seed=11, mode=mode, hostile=False, nodes=1), 0, 2000)
        assert tally.found is None
        met[mode] = len(tally.seen)
    assert met["guided"] > max(met["uniform"], met["pct"])


@pytest.mark.slow
def test_the_record_tells_seed_rate_coverage_and_nodes(tmp_path: Path) -> None:
    path = tmp_path / "record.md"
    done = chaos("simulate", "protocol", "--schedules", 60, "--seed", 9, "--nodes", 3, "--record", path)
    assert done.returncode == Exit.PASSED, done.stdout + done.stderr
    record = path.read_text()
    assert record.startswith("# 60 simulated schedules: no violation")
    assert "--schedules 60 --seed 9 --mode mixed --nodes 3 --jobs 1" in record
    assert "- nodes: 3 60" in record
    assert "a core's second:" in record
    assert "the coordinator's" in record
