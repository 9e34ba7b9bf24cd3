"""The pytest plugin `torch_chaos`: hooks alone. Inert until a test uses it.

Rules kept here:

- Loading it imports pytest and the standard library, nothing else; the engine is imported by the first test
  that needs it (or by an option that names parts of it), torch by none: it lives in the processes of the job.
- Under pytest-xdist every worker has an open run of its own, and one seed for all comes from the controller.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.testing import options as opt
from chaos.testing.current import current

if TYPE_CHECKING:
    from chaos.testing.bench import Bench
    from chaos.testing.cluster import LiveCluster
    from chaos.testing.session import TorchChaos
    from chaos.testing.suites import SuiteFile

MARKER = "torch_chaos"
LAST_SEED = "torch_chaos/seed"
SEED_TOLD = "torch_chaos_seed"
LEFT_TOLD = "torch_chaos_left"
SUITES = "torch_chaos_suites"
RECORD = "torch_chaos_search"  # as in chaos.testing.property, which imports Hypothesis

_bench: pytest.StashKey[Bench] = pytest.StashKey()
_chaos: pytest.StashKey[TorchChaos] = pytest.StashKey()
_left: pytest.StashKey[list[str]] = pytest.StashKey()
_outer: pytest.StashKey[opt.Options | None] = pytest.StashKey()


# -- options and header ------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("torch-chaos", "breaking training on purpose")
    for option in opt.OPTIONS:
        group.addoption(option.flag, metavar=option.metavar, dest=option.key, help=option.help)
        parser.addini(option.key, option.help, default="")
    parser.addini(SUITES, "patterns of suite files that are collected from folders", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    line = "break training and judge how it recovers; keywords are those of torch_chaos.run"
    config.addinivalue_line(
        "markers", f"{MARKER}(suite=... | faults=[...], world=, cluster=, seed=, repeat=): {line}"
    )
    found = {
        option.name: opt.given(
            option, config.getoption(option.key), os.environ, str(config.getini(option.key) or "")
        )
        for option in opt.OPTIONS
    }
    told = getattr(config, "workerinput", {}).get(SEED_TOLD)
    if told is not None:
        found["seed"] = opt.Given(str(told), "the controller")
    try:
        options = opt.Options.of(found, lambda: _cached_seed(config), config.rootpath, opt.known_names)
    except opt.BadOption as error:
        raise pytest.UsageError(f"torch-chaos: {error}") from None
    if options.seed.number is not None and told is None and _cache(config) is not None:
        _cache(config).set(LAST_SEED, options.seed.number)
    config.stash[_outer] = current().options
    config.stash[_left] = []
    current().options = options


def pytest_unconfigure(config: pytest.Config) -> None:
    # A session may run in the process of another one, as pytester's do.
    current().options = config.stash.get(_outer, None)


def _cache(config: pytest.Config) -> Any:
    return getattr(config, "cache", None)


def _cached_seed(config: pytest.Config) -> Any:
    return None if _cache(config) is None else _cache(config).get(LAST_SEED, None)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist: one seed for all workers, drawn or not."""
    node.workerinput[SEED_TOLD] = _options().seed.number


def pytest_report_header() -> str:
    options = _options()
    seed = options.seed
    told = seed.how
    if seed.number is not None:
        told = f"{seed.number} ({seed.how}; --torch-chaos-seed={seed.number} repeats it)"
    needed = f", required {' '.join(sorted(options.require))}" if options.require else ""
    cpus = len(os.sched_getaffinity(0))
    return f"torch-chaos: seed {told}, profile {options.profile}, {_torch()}, {cpus} CPUs{needed}"


def _torch() -> str:
    from importlib import metadata

    try:
        return f"torch {metadata.version('torch')}"
    except metadata.PackageNotFoundError:
        return "no torch"


def pytest_report_collectionfinish(items: list[pytest.Item]) -> str | None:
    """What this machine can do, tried now that it is known that tests of ours will be run."""
    ours = sum(_is_ours(item) for item in items)
    if not ours:
        return None
    from chaos.clusters.make import PROBES

    tried = {kind: probe() for kind, probe in PROBES.items()}
    works = ", ".join(kind for kind, found in tried.items() if found.works)
    lacks = "".join(f"; no {kind}: {found.detail}" for kind, found in tried.items() if not found.works)
    return f"torch-chaos: {ours} tests; clusters {works}{lacks}"


def _options() -> opt.Options:
    found = current().options
    assert found is not None, "pytest_configure has set them"
    return found


# -- collection --------------------------------------------------------------------------------------------


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SuiteFile | None:
    """A suite file that was named, or that the ini file's patterns name. Any other YAML is left alone."""
    if file_path.suffix not in (".yaml", ".yml"):
        return None
    named = parent.session.isinitpath(file_path) or any(
        file_path.relative_to(parent.config.rootpath).match(pattern)
        for pattern in parent.config.getini(SUITES)
        if file_path.is_relative_to(parent.config.rootpath)
    )
    if not named or not _looks_like_a_suite(file_path):
        return None
    from chaos.testing.suites import SuiteFile

    return SuiteFile.from_parent(parent, path=file_path)


def _looks_like_a_suite(path: Path) -> bool:
    """Whether the two keys that every suite has are there: cheap, and enough to tell it from other YAML."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return all(any(line.startswith(f"{key}:") for line in lines) for key in ("suite", "scenarios"))


def _is_ours(item: pytest.Item) -> bool:
    return _asks(item) or item.get_closest_marker(MARKER) is not None or _search(item) is not None


def _asks(item: pytest.Item) -> bool:
    return not {"torch_chaos", "torch_chaos_cluster"}.isdisjoint(getattr(item, "fixturenames", ()))


def _search(item: pytest.Item) -> Any:
    """The search of a recovery property's test; None for every other one."""
    return getattr(getattr(item, "obj", None), RECORD, None)


# -- fixtures ----------------------------------------------------------------------------------------------


@pytest.fixture
def torch_chaos(request: pytest.FixtureRequest) -> TorchChaos:
    """Break a training function, a script or a command line: `torch_chaos.run(train, faults=[...])`."""
    return session_of(request.node)


@pytest.fixture
def torch_chaos_cluster(request: pytest.FixtureRequest) -> Iterator[LiveCluster]:
    """The nodes that the marker's `cluster` names, made for the test and gone after it."""
    from chaos.testing.cluster import live

    with live(session_of(request.node)) as cluster:
        yield cluster


def session_of(item: pytest.Item) -> TorchChaos:
    """A test's own session, the same for all that ask for it."""
    if _chaos not in item.stash:
        item.stash[_chaos] = _make(item)
    return item.stash[_chaos]


def _make(item: pytest.Item) -> TorchChaos:
    from chaos.errors import UserError
    from chaos.testing.build import Owner
    from chaos.testing.session import TorchChaos
    from chaos.testing.wanted import Wanted

    marker = item.get_closest_marker(MARKER)
    try:
        marked = Wanted.of(f"{item.name}: @pytest.mark.{MARKER}", marker.kwargs if marker else {})
    except UserError as error:
        pytest.fail(str(error), pytrace=False)
    reports = _options().report or _home(item.config).parent / "torch-chaos-reports"
    return TorchChaos(Owner(item.name, item.path), _options(), _open(item.config), marked, reports)


def _home(config: pytest.Config) -> Path:
    """This process's own folder in pytest's temporary one."""
    factory: pytest.TempPathFactory = config._tmp_path_factory  # type: ignore[attr-defined]  # the fixture's own way
    return factory.getbasetemp() / "torch-chaos"


def _open(config: pytest.Config) -> Bench:
    if _bench not in config.stash:
        from chaos.testing.bench import Bench

        config.stash[_bench] = Bench(_home(config))
    return config.stash[_bench]


# -- running -----------------------------------------------------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    marked = isinstance(item, pytest.Function) and item.get_closest_marker(MARKER) is not None
    if marked and not _asks(item) and _search(item) is None:
        pytest.fail(
            f"marked {MARKER}, but takes no fixture `torch_chaos`: nothing would be broken", pytrace=False
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    search = _search(item)
    if search is None:
        return (yield)
    current().chaos = session_of(item)
    try:
        yield
        search.close()
    finally:
        current().chaos = None
        # A property of the report, so that it comes from workers too, and into JUnit files.
        item.user_properties.append((MARKER, search.summary))
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    chaos = item.stash.get(_chaos, None)
    if chaos is None:
        return report
    if report.failed and (chaos.results or chaos.unfinished):
        from chaos.testing.failure import section, unfinished

        told = unfinished(chaos.folders[-1]) if chaos.unfinished else section(chaos.telling)
        report.sections.append(("torch-chaos", told))
    if call.when == "teardown":
        _tidy(item, chaos)
    elif report.failed:
        chaos.keep = True
    return report


def _tidy(item: pytest.Item, chaos: TorchChaos) -> None:
    """Remove what a passed test has written, unless a folder was asked for."""
    if not chaos.keep and chaos.options.report is None:
        for folder in chaos.folders:
            shutil.rmtree(folder, ignore_errors=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    bench = session.config.stash.get(_bench, None)
    left = session.config.stash[_left]
    left += [] if bench is None else bench.close()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[LEFT_TOLD] = left
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """pytest-xdist: what a worker could not remove is the session's to tell."""
    node.config.stash[_left] += getattr(node, "workeroutput", {}).get(LEFT_TOLD, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [report for found in terminalreporter.stats.values() for report in found]
    notes = [
        f"{report.nodeid}: {value}"
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == MARKER
    ]
    notes += [f"LEFT OVER: {what}" for what in config.stash.get(_left, [])]
    if notes:
        terminalreporter.section("torch-chaos")
        for note in notes:
            terminalreporter.line(note)
