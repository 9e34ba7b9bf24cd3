"""The verbs of `torch-chaos`. Each does its imports when it is called, so that the help is there at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from chaos.cli import complete
from chaos.errors import Exit, UserError

EPILOG = (
    "Exit codes: 0 all as expected; 1 an invariant was violated; 2 inconclusive; 3 clean-up incomplete, "
    "whatever else happened; 4 refused before start; 64 bad usage or bad file; 70 internal error; "
    "130 interrupted and rolled back."
)

app = typer.Typer(
    name="torch-chaos",
    help="Break a running distributed PyTorch job on purpose, repeatably, and prove that it recovered.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Format = Literal["rich", "json", "plain"]
SuiteArgs = Annotated[
    list[str],
    typer.Argument(metavar="NAME_OR_PATH...", help="shipped suites or files", autocompletion=complete.suites),
]
SuiteArg = Annotated[
    str,
    typer.Argument(metavar="NAME_OR_PATH", help="a shipped suite or a file", autocompletion=complete.suites),
]
SeedOption = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="instead of the suite's")]
OnlyOption = Annotated[
    str | None,
    typer.Option("--only", metavar="PATTERN", help="scenarios whose name matches or contains it"),
]
RepeatOption = Annotated[int, typer.Option("--repeat", metavar="K", min=1, help="each scenario K times")]
DirOption = Annotated[
    Path | None, typer.Option("--report-dir", metavar="DIR", help="default: reports/<suite>-<time>/")
]
FormatOption = Annotated[Format, typer.Option("--format", help="rich, plain lines, or the report as JSON")]
JsonOption = Annotated[bool, typer.Option("--json", help="everything that is known, as JSON")]
JunitOption = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="JUnit XML besides")]
InconclusiveOption = Annotated[
    Literal["error", "fail", "skip"],
    typer.Option("--junit-inconclusive", help="what JUnit and annotations call INCONCLUSIVE"),
]
SlowerOption = Annotated[
    float, typer.Option("--slower-than", metavar="RATIO", help="the ratio above which a time is slower")
]


@app.command()
def run(
    suites: SuiteArgs,
    seed: SeedOption = None,
    only: OnlyOption = None,
    repeat: RepeatOption = 1,
    report_dir: DirOption = None,
    format: FormatOption = "rich",
    junit: JunitOption = None,
    inconclusive: InconclusiveOption = "error",
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="REPORT", help="an earlier run; being slower or worse exits with 1"
        ),
    ] = None,
    slower_than: SlowerOption = 1.5,
) -> None:
    """Run suites: break the job, judge the recovery, write the reports.

    Example: torch-chaos run smoke --repeat 10 --baseline reports/main
    """
    from chaos.cli import diff as compared
    from chaos.cli import runs

    limits = compared.Wanted(slower_than).limits()
    output = runs.Output(report_dir, format, junit, inconclusive, baseline, limits)
    raise typer.Exit(runs.run_suites(suites, seed, only, repeat, output))


@app.command()
def replay(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.json", help="a run's plan.json")],
    only: OnlyOption = None,
    report_dir: DirOption = None,
    format: FormatOption = "rich",
    junit: JunitOption = None,
    inconclusive: InconclusiveOption = "error",
) -> None:
    """Run a stored plan again: the same faults, on the same ranks, at the same moments.

    Example: torch-chaos replay reports/smoke-20260101-120000/plan.json --only three_kills
    """
    from chaos.cli import runs

    raise typer.Exit(runs.replay(plan, only, runs.Output(report_dir, format, junit, inconclusive)))


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a run's folder")],
    format: FormatOption = "rich",
    junit: JunitOption = None,
    inconclusive: InconclusiveOption = "error",
    as_is: Annotated[
        bool, typer.Option("--as-is", help="judge nothing: draw report.html and trace.json anew")
    ] = False,
) -> None:
    """Judge a stored run's histories again, and write its reports anew, without running anything.

    Example: torch-chaos report reports/smoke-20260101-120000
    """
    if as_is:
        from chaos.cli import report as drawn

        raise typer.Exit(drawn.pages(folder))
    from chaos.cli import rejudge

    raise typer.Exit(rejudge.report(folder, format, junit, inconclusive))


@app.command()
def diff(
    before: Annotated[
        Path, typer.Argument(metavar="A", help="a report, a run's folder, or a folder of runs")
    ],
    after: Annotated[Path, typer.Argument(metavar="B", help="what is held against it")],
    slower_than: SlowerOption = 1.5,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="P", help="how often chance alone may call anything different")
    ] = 0.01,
    floor: Annotated[
        str, typer.Option("--floor", metavar="TIME", help="shorter times count as this long")
    ] = "10ms",
    everything: Annotated[bool, typer.Option("--all", help="every scenario, not only what changed")] = False,
    format: FormatOption = "rich",
) -> None:
    """Compare two runs: verdicts, recovery times by phase, the time of a step. Exits with 1 if B is worse.

    Runs made with --repeat 10 say more.

    Example: torch-chaos diff reports/main reports/branch --slower-than 1.2
    """
    from chaos.cli import diff as verbs

    wanted = verbs.Wanted(slower_than, alpha, floor)
    raise typer.Exit(verbs.diff(before, after, wanted, everything, format))


@app.command()
def history(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="a folder of runs")] = Path("reports"),
    suite: Annotated[
        str | None,
        typer.Option("--suite", metavar="NAME", help="this suite alone", autocompletion=complete.suites),
    ] = None,
    format: FormatOption = "rich",
) -> None:
    """Show how runs went over time, and what the newest changed.

    Example: torch-chaos history reports --suite smoke
    """
    from chaos.cli import history as verbs

    raise typer.Exit(verbs.history(folder, suite, format))


@app.command()
def validate(suites: SuiteArgs) -> None:
    """Check suite files: every problem at once, with line, key and remedy.

    Example: torch-chaos validate smoke suites/mine.yaml
    """
    from chaos.cli import suites as verbs

    verbs.validate(suites)


@app.command()
def plan(
    suite: SuiteArg,
    seed: SeedOption = None,
    only: OnlyOption = None,
    repeat: RepeatOption = 1,
    format: FormatOption = "rich",
) -> None:
    """Show what a suite and a seed resolve to; with --format json, the plan itself.

    Example: torch-chaos plan smoke --seed 7 --only 'kill_*'
    """
    from chaos.cli import plan as verbs

    verbs.plan(suite, seed, only, repeat, format)


@app.command("list")
def list_(
    what: Annotated[
        Literal["faults", "invariants", "suites"], typer.Argument(help="what to list")
    ] = "faults",
    json: JsonOption = False,
) -> None:
    """List the faults, the invariants or the shipped suites.

    Example: torch-chaos list invariants
    """
    from chaos.cli import catalogue

    catalogue.show_list(what, json)


@app.command()
def describe(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="a fault, an invariant or a suite", autocompletion=complete.anything
        ),
    ],
    json: JsonOption = False,
) -> None:
    """Say what a fault stands for, what it does not certify, by which means and where it is exercised.

    Example: torch-chaos describe collective.hang
    """
    from chaos.cli import catalogue

    catalogue.describe(name, json)


@app.command()
def schema(
    what: Annotated[Literal["suite", "report"], typer.Argument(help="of what")] = "suite",
) -> None:
    """Print the JSON Schema of suite files, or of report.json.

    Example: torch-chaos schema report
    """
    from chaos.cli import suites as verbs

    verbs.schema(what)


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Say what this machine can do, which mechanism each fault would take, and what is missing.

    Example: torch-chaos doctor --json
    """
    from chaos.cli import doctor as verbs

    raise typer.Exit(verbs.doctor(json))


@app.command()
def export(
    what: Annotated[Literal["fidelity", "docs", "otel"], typer.Argument(help="what to write")],
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="otel: a run's folder")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="default: reports/fidelity, or docs in a checkout"),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="NAME", help="fidelity: who answers for it; default: you")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="docs: write nothing, fail if one is stale")] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="otel: write JSON lines, send nothing")
    ] = None,
) -> None:
    """Write the shipped scenarios as ai-cluster-chaos-fidelity specs, or the generated pages of docs/.

    otel: send a run's faults, recoveries and verdicts as spans and metrics to an OpenTelemetry collector: the
    one that the OTEL_EXPORTER_OTLP_* variables name, or that on port 4318 of this machine.

    Example: torch-chaos export otel reports/smoke-20260101-120000 --file run.jsonl
    """
    from chaos.cli import export as verbs

    if what == "otel":
        raise typer.Exit(verbs.otel(folder, file))
    if folder is not None or file is not None:
        raise UserError(f"export {what}: takes no DIR and no --file", "name a folder with --out")
    raise typer.Exit(verbs.fidelity(out, owner) if what == "fidelity" else verbs.docs(out, check))


@app.command()
def rollback(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="a run's folder, or one of many")] = Path(
        "reports"
    ),
) -> None:
    """Say whether runs left anything behind, and take it back.

    Example: torch-chaos rollback reports/smoke-20260101-120000
    """
    from chaos.cli import rollback as verbs

    raise typer.Exit(verbs.rollback(folder))


@app.command()
def init(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="your training script")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="where to write it")] = Path(
        "chaos.yaml"
    ),
    world: Annotated[
        int | None,
        typer.Option("--nproc-per-node", min=1, help="ranks; default: as it is started here, or 4"),
    ] = None,
    ci: Annotated[
        Literal["auto", "github", "gitlab", "none"],
        typer.Option("--ci", help="also a CI file; auto: if the folder has one of that kind"),
    ] = "auto",
) -> None:
    """Write a first suite for a script of yours, from what the files of this folder tell of it.

    Example: torch-chaos init train.py --out chaos.yaml --ci github
    """
    from chaos.cli import init as verbs

    verbs.init(script, out, world, ci)


@app.command()
def simulate(
    what: Annotated[Literal["protocol"], typer.Argument(help="what to simulate")],
    schedules: Annotated[int | None, typer.Option("--schedules", metavar="N", min=1, help="how many")] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="how long, e.g. 60s")] = None,
    world: Annotated[int | None, typer.Option("--world", metavar="N", min=2, help="ranks")] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="N", min=1, help="default: one, and now and then several")
    ] = None,
    faults: Annotated[int | None, typer.Option("--faults", metavar="N", min=0, help="faults each")] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="S", min=0, help="default: a new one")] = None,
    mode: Annotated[
        Literal["mixed", "uniform", "pct", "guided"], typer.Option("--mode", help="how to search")
    ] = "mixed",
    jobs: Annotated[int, typer.Option("--jobs", metavar="J", min=1, help="processes")] = 1,
    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="run this plan alone")] = None,
    plans: Annotated[Path, typer.Option("--plans", metavar="DIR", help="where a found plan goes")] = Path(
        "reports/found"
    ),
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="write a record of the search (Markdown)")
    ] = None,
) -> None:
    """Drive the recovery protocol through hostile schedules in virtual time, checked at every event.

    Example: torch-chaos simulate protocol --for 60s --world 8 --jobs 2
    """
    from chaos.cli import simulate as verbs

    bounds = verbs.Bounds(schedules, for_, jobs)
    wanted = verbs.Wanted(world, faults, seed, mode, nodes)
    raise typer.Exit(verbs.simulate(wanted, bounds, plan, plans, record))


@app.command()
def shrink(
    source: Annotated[
        Path, typer.Argument(metavar="PLAN_OR_REPORT", help="a plan.json, a report.json, or a run's folder")
    ],
    budget: Annotated[str, typer.Option("--budget", metavar="TIME", help="for all runs together")] = "10m",
    only: OnlyOption = None,
    invariant: Annotated[
        str | None,
        typer.Option(
            "--invariant",
            metavar="NAME",
            help="which failure, if there are several",
            autocompletion=complete.invariants,
        ),
    ] = None,
    tries: Annotated[
        int, typer.Option("--tries", metavar="N", min=1, help="runs before a smaller plan counts as holding")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="default: reports/shrunk/<suite>-<scenario>")
    ] = None,
) -> None:
    """Make a failing plan small, by running smaller ones: fewer faults, ranks and steps, plainer moments.

    Writes plan.json and a pytest file with each smaller plan that fails; an interruption keeps them.

    Example: torch-chaos shrink reports/smoke-20260101-120000 --budget 5m
    """
    from chaos.cli import shrink as verbs

    raise typer.Exit(verbs.shrink(verbs.Wanted(source, only, invariant, budget, tries, out)))


@app.command()
def attach(
    pids: Annotated[
        list[int],
        typer.Argument(
            metavar="PID...", help="the launcher or any process of the job; on several nodes one of each"
        ),
    ],
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault", metavar="NAME", help="which fault; may be repeated", autocompletion=complete.faults
        ),
    ] = None,
    faults: Annotated[
        Path | None, typer.Option("--faults", metavar="FILE", help="faults as a suite has them, instead")
    ] = None,
    rank: Annotated[
        str | None, typer.Option("--rank", metavar="N|random", help="the rank that is struck")
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", metavar="N|random", help="or the node, for faults of nodes")
    ] = None,
    for_: Annotated[str | None, typer.Option("--for", metavar="TIME", help="how long it lasts")] = None,
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="TIME", help="before it strikes; default: at once")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="K=V", help="a parameter of the fault; may be repeated"),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", metavar="TIME", help="all is taken back by then, whatever happens")
    ] = "10m",
    settle: Annotated[
        str, typer.Option("--settle", metavar="TIME", help="how long the job is looked at afterwards")
    ] = "1s",
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="of random choices")] = 0,
    report_dir: DirOption = None,
    format: FormatOption = "rich",
    junit: JunitOption = None,
    inconclusive: InconclusiveOption = "error",
) -> None:
    """Break a job that is already running, see the effect, take it back. Without a fault: say what is there.

    The job is neither started nor ended by this command, and nothing is put into its processes.

    Example: torch-chaos attach 4711 --fault process.stop --rank 1 --for 3s
    """
    from chaos.attach.faults import Asked
    from chaos.cli import attach as verbs
    from chaos.cli import runs

    asked = Asked(tuple(fault or ()), rank, node, for_, wait, tuple(param or ()))
    output = runs.Output(report_dir, format, junit, inconclusive)
    raise typer.Exit(verbs.attach(pids, verbs.Wanted(asked, faults, within, settle, seed), output))


@app.command()
def fuzz(
    suite: SuiteArg,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="how long, shrinking included; default: 10m")
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", metavar="N", min=1, help="how many plans")] = None,
    seed: SeedOption = None,
    faults: Annotated[
        str,
        typer.Option("--faults", metavar="NAMES", help="further faults, or families of them: process,net"),
    ] = "",
    phases: Annotated[
        str, typer.Option("--phases", metavar="NAMES", help="further phases; also `recovery`, or `all`")
    ] = "",
    only: OnlyOption = None,
    most: Annotated[
        int | None,
        typer.Option("--most", metavar="N", min=1, help="faults in a plan; default: as the suite, up to 4"),
    ] = None,
    repeats: Annotated[
        str, typer.Option("--repeats", metavar="K/N", help="a failure counts when K of N runs fail")
    ] = "2/3",
    shrink_budget: Annotated[
        str, typer.Option("--shrink-budget", metavar="TIME", help="for each finding")
    ] = "3m",
    stop_at_first: Annotated[
        bool, typer.Option("--stop-at-first", help="end with the first finding")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="default: reports/fuzz/<suite>; there, it goes on"),
    ] = None,
) -> None:
    """Draw plans from what a suite names, steered to (fault, phase, role) that none has met, and run them.

    What fails again and again is shrunk. The same command goes on where the last one ended.

    Example: torch-chaos fuzz smoke --for 30m --faults process
    """
    from chaos.cli import fuzz as verbs

    wanted = verbs.Wanted(
        suite, for_, rounds, seed, faults, phases, only, most, repeats, shrink_budget, stop_at_first, out
    )
    raise typer.Exit(verbs.fuzz(wanted))


@app.callback(invoke_without_command=True)
def _top(
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        from chaos import __version__

        print(f"torch-chaos {__version__}")
        raise typer.Exit(0)


def main() -> None:
    """Run the command line and exit."""
    sys.exit(_main(sys.argv[1:]))


def _main(argv: list[str]) -> int:
    try:
        return int(app(argv, standalone_mode=False) or 0)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        print("torch-chaos: interrupted", file=sys.stderr)
        return int(Exit.INTERRUPTED)
    except UserError as error:
        print(f"torch-chaos: {error}", file=sys.stderr)
        return int(error.exit_code)
    except BrokenPipeError:
        # `torch-chaos list | head`: the reader has seen enough.
        sys.stderr.close()
        return int(Exit.PASSED)
    except Exception as error:
        # A usage error: typer may bring a click of its own, so it is known by what it can do, not its class.
        show = getattr(error, "show", None)
        if callable(show) and hasattr(error, "exit_code"):
            show()
            return int(Exit.USAGE)
        import traceback

        traceback.print_exc()
        print("torch-chaos: internal error; this is a bug of torch-chaos, not of the target", file=sys.stderr)
        return int(Exit.INTERNAL)
