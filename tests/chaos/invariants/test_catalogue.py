import pytest

from chaos.history import History
from chaos.invariants import catalogue
from chaos.invariants.expectations import expected_kinds, needs_undo
from chaos.invariants.finding import Offences, Verdict
from chaos.invariants.growth import growth
from chaos.invariants.invariant import catalogue_of
from chaos.invariants.scene import Scene
from tests.chaos.histories import Job

ALL = sorted(catalogue)


def test_a_second_invariant_of_one_name_is_refused() -> None:
    one = next(iter(catalogue.values()))
    with pytest.raises(ValueError, match="two invariants are named 'state_equals_twin'"):
        catalogue_of([one, one])


@pytest.mark.parametrize("name", ALL)
def test_each_says_what_it_needs_where_it_comes_from_and_what_breaks_it(name: str) -> None:
    item = catalogue[name]
    assert item.name == name
    assert item.summary.endswith((".", ":", ";"))
    assert item.sources
    assert all(source.startswith("I-") for source in item.sources)
    assert "Smallest break:" in (item.body.__doc__ or "")


@pytest.mark.parametrize("name", ALL)
def test_an_empty_history_never_passes(name: str) -> None:
    scenario = Job().steps(1).kill(1).scenario()
    finding = catalogue[name](History([]), History([]), scenario)
    assert finding.verdict == Verdict.INCONCLUSIVE
    assert finding.name == name


@pytest.mark.parametrize("name", ALL)
def test_events_with_missing_or_wrong_fields_crash_nothing(name: str) -> None:
    job = Job().steps(1).kill(1).finish()
    hollow = [{"t": event["t"], "event": event["event"]} for event in job.events]
    wrong = [{**dict.fromkeys(event, "x"), "event": event["event"]} for event in job.events]
    for events in (hollow, wrong):
        assert catalogue[name](History(events), job.twin(), job.scenario()).name == name


def test_expectations_come_from_the_plan_or_the_catalogue_of_faults() -> None:
    assert expected_kinds({"expects": "crash"}, "process.kill") == (frozenset({"crash"}), False)
    assert expected_kinds({"expects": ["crash", "hang"]}, "x") == (frozenset({"crash", "hang"}), False)
    assert expected_kinds({"expects": None}, "collective.mismatch") == (frozenset(), True)
    assert expected_kinds({}, "process.kill") == (frozenset({"crash"}), False)
    assert needs_undo({}, "process.stop")
    assert not needs_undo({}, "process.kill")
    with pytest.raises(LookupError, match=r"no fault named 'process.kil' in"):
        expected_kinds({}, "process.kil")


def test_a_scenario_is_read_with_its_defaults() -> None:
    assert Scene.of({}).restart == "in_place"
    assert Scene.of({"target": {"kind": "command"}}).restarts_whole_job
    assert not Scene.of({"target": {"kind": "custom", "restart": "in_place"}}).restarts_whole_job


def test_offences_keep_first_worst_and_last() -> None:
    offences = Offences()
    for line, weight in (("a", 1.0), ("b", 3.0), ("c", 3.0), ("d", 2.0)):
        offences.add(line, weight)
    finding = offences.finding()
    assert (finding.count, finding.first, finding.worst, finding.last) == (4, "a", "b", "d")


def test_growth_is_the_slope_within_processes() -> None:
    assert growth([]).slope == 0.0
    assert growth([[(1, 10.0), (5, 14.0)], [(1, 99.0), (3, 101.0)]]).slope == 1.0
    assert growth([[(g, float(g)) for g in range(1000)]]).slope == 1.0
