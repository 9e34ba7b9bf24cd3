from collections.abc import Callable

import pytest

from chaos.invariants.finding import Finding, Verdict
from chaos.invariants.nothing_left_over import nothing_left_over as rule
from tests.chaos.histories import Events, Job, changed, matching, plus, verdict_of, without

LEAKS = matching(event="leak.check")
MIB = 1024**2


def soak(**figures: Callable[[int, int], int]) -> Finding:
    """A job of 3 ranks with 12 kills; `figures` give fds, threads or rss_bytes of (generation, pid)."""
    job = Job(3).steps(1)
    for number in range(12):
        job.kill(1 if number % 4 else 2)
    job.finish()
    grown: Events = [
        {**event, **{name: of(event["generation"], event["pid"]) for name, of in figures.items()}}
        if event["event"] == "generation.formed"
        else event
        for event in job.events
    ]
    return verdict_of(rule, job, grown)


def test_holds_when_all_is_gone_and_flat() -> None:
    assert soak().detail == "nothing left; flat over 11 generations"


@pytest.mark.parametrize("place", ["processes", "shm", "sockets", "files"])
def test_something_is_left(place: str) -> None:
    job = Job().steps(1).finish()
    bad = changed(job.events, LEAKS, **{place: [{"pid": 5, "argv": "python"}]})
    assert verdict_of(rule, job, bad).first == f"left over in {place}: pid=5 argv=python"


def test_an_orphan_was_seen() -> None:
    job = Job().steps(1).finish()
    bad = plus(job.events, LEAKS, event="orphan.seen", pid=77, argv="python train.py")
    assert verdict_of(rule, job, bad).first == "orphan: pid 77 python train.py"


def test_a_descriptor_leaks_every_other_generation() -> None:
    finding = soak(fds=lambda generation, pid: 20 + generation // 2)
    assert finding.verdict == Verdict.VIOLATED
    assert finding.first == "fds of a process grow by 0.5 per generation over 9 generations"


def test_threads_and_memory_grow() -> None:
    assert soak(threads=lambda generation, pid: 5 + generation).verdict == Verdict.VIOLATED
    assert soak(rss_bytes=lambda generation, pid: 300 * MIB + generation * MIB).verdict == Verdict.VIOLATED


def test_each_new_process_starts_bigger() -> None:
    # Within a process all is flat; what its template collected shows at birth only.
    finding = soak(fds=lambda generation, pid: 20 + (pid - 100 if pid > 102 else 0))
    assert finding.first is not None
    assert finding.first.startswith("fds of each new process grow by 1 per generation")


def test_noise_outliers_and_other_levels_are_no_growth() -> None:
    assert soak(fds=lambda generation, pid: 20 + (15 if generation == 7 else 0)).verdict == Verdict.PASS
    assert soak(fds=lambda generation, pid: 20 + generation * pid % 3).verdict == Verdict.PASS
    assert soak(rss_bytes=lambda generation, pid: 300 * MIB + generation * MIB // 10).verdict == Verdict.PASS


def test_too_thin_without_a_leak_check() -> None:
    job = Job().steps(1).finish()
    assert verdict_of(rule, job, without(job.events, LEAKS)).detail == "the history has no leak.check"
    assert verdict_of(rule, job).detail == "nothing left; too few generations to judge growth"
