"""How each fault with an undo is brought about in a run that is small enough to be killed a hundred times.

A fault without a line here is taken from the first scenario of a shipped suite that exercises it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from chaos import cards
from chaos.cards import Use
from chaos.plan import Plan, make_plan
from chaos.runner import facts
from chaos.suite import find, load
from injectors.catalogue import CATALOGUE
from tests.injectors.gpu import stand_in

STANDIN = Path(__file__).parents[1] / "standin"
JOBS = Path(__file__).parent / "jobs"
STEP_S = 0.02


@dataclass(frozen=True)
class Stage:
    """What was made for a fault to act on: variables for the tool, and a look at what must not be changed."""

    env: Mapping[str, str] = field(default_factory=dict)
    look: Callable[[], dict[str, str]] = dict


@dataclass(frozen=True)
class Setup:
    """One way to have a fault in a run.

    Attributes:
        entry: keys of the fault's entry in a suite, beside its name.
        job: standin (processes that only sleep), busy (processes that only compute), recovery (two ranks of
            the real runtime), checkpoints (which also write these), loader (with loader workers), or the kind
            of a cluster (a job that counts).
        needs: capabilities of the machine, see tests/conftest.py.
        stage: makes what the fault acts on, in a folder.
        recover: the bound of a recovery; a fault without a duration is taken back after that time.
    """

    entry: Mapping[str, object]
    job: str = "standin"
    needs: tuple[str, ...] = ()
    stage: Callable[[Path], Stage] | None = None
    recover: str = "10s"


BY_CLOCK: Mapping[str, object] = {"where": {"rank": 1}, "when": {"after_s": 0.05}, "for": "300ms"}
IN_A_COLLECTIVE: Mapping[str, object] = {"where": {"rank": 1}, "when": {"step": 6, "phase": "backward"}}
IN_FORWARD: Mapping[str, object] = {"where": {"rank": 1}, "when": {"step": 6, "phase": "forward"}}
ON_NODE: Mapping[str, object] = {"where": {"node": 1}, "when": {"step": 6}, "for": "300ms"}
NETNS, DOCKER = ("netns", "nft"), ("docker", "nft")


def gpus(folder: Path) -> Stage:
    """Two devices of a stand-in for NVML; their settings and who has claimed them."""
    library = stand_in.compile_library(folder)
    assert library is not None, "no C compiler on this machine"
    made = stand_in.fresh(library)
    return Stage(stand_in.environment(made), made.snapshot)


ON_DEVICE = Setup({**BY_CLOCK, "with": {"device": "0"}}, stage=gpus)


def _writing(needs: tuple[str, ...] = (), **params: object) -> Setup:
    given = {"path": "checkpoints/*", **params}
    return Setup(
        {"where": {"rank": 0}, "when": {"step": 8}, "for": "2s", "with": given}, "checkpoints", needs
    )


# By the fault's id; a further way to have the same fault stands after it: "net.partition on docker".
SETUPS: Mapping[str, Setup] = {
    "process.stop": Setup(BY_CLOCK),
    "collective.hang": Setup(IN_A_COLLECTIVE, "recovery", recover="300ms"),
    "collective.delay": Setup({**IN_A_COLLECTIVE, "for": "150ms"}, "recovery"),
    "host.cpu_throttle": Setup(BY_CLOCK, "busy", ("cgroup",)),
    "host.cpu_throttle by stops": Setup(
        {**IN_FORWARD, "for": "500ms", "with": {"mechanism": "duty"}}, "recovery"
    ),
    "host.memory": Setup(IN_FORWARD, "recovery", ("cgroup",)),
    "host.clock": Setup({**IN_FORWARD, "for": "300ms"}, "recovery"),
    "storage.enospc": _writing(),
    "storage.eio": _writing(),
    "storage.slow": _writing(),
    "storage.torn": _writing(),
    "storage.bitflip": _writing(),
    "storage.truncate": _writing(),
    "data.slow": Setup({"where": {"rank": 1}, "when": {"step": 6}, "for": "300ms"}, "loader"),
    "gpu.clock_lock": ON_DEVICE,
    "gpu.power_cap": ON_DEVICE,
    "gpu.contend": ON_DEVICE,
    "gpu.mem_hog": ON_DEVICE,
    "net.partition": Setup({**ON_NODE, "with": {"shape": "minority"}}, "netns", NETNS),
    "net.partition by a relay": Setup({**ON_NODE, "with": {"mechanism": "packet relay"}}, "netns", NETNS),
    "net.partition on docker": Setup({**ON_NODE, "with": {"shape": "minority"}}, "docker", DOCKER),
    "net.partition by docker": Setup({**ON_NODE, "with": {"mechanism": "docker network"}}, "docker", DOCKER),
    "net.drop_one_way": Setup(ON_NODE, "netns", NETNS),
    "net.delay": Setup(ON_NODE, "netns", NETNS),
    "net.loss": Setup({**ON_NODE, "with": {"percent": 50.0}}, "netns", NETNS),
    "net.bandwidth": Setup(ON_NODE, "netns", NETNS),
    "net.reset": Setup(ON_NODE, "netns", NETNS),
    "net.half_open": Setup(ON_NODE, "netns", NETNS),
    "net.link_down": Setup(ON_NODE, "netns", NETNS),
}


def ways() -> list[str]:
    """Every way to have a fault with an undo: all faults, and the further ways of the table."""
    undoable = [name for name, fault in CATALOGUE.items() if fault.has_undo]
    return [*undoable, *(name for name in SETUPS if name not in undoable)]


def fault_of(way: str) -> str:
    """The fault's id."""
    return way.split()[0]


def lightest(fault: str) -> Use:
    """The shipped scenario that has a fault and the fewest others."""
    found = cards.uses().get(fault, [])
    assert found, f"no scenario of a shipped suite has {fault}, and no line of SETUPS"
    scenarios = {
        (suite, scenario.name): scenario
        for suite in {use.suite for use in found}
        for scenario in load(suite, CATALOGUE).suite.scenarios
    }
    return min(found, key=lambda use: len(scenarios[use.suite, use.scenario].faults))


def plan_for(way: str, folder: Path) -> Plan:
    """The plan of one run with this fault: from the table, else the scenario of a shipped suite."""
    setup, fault = SETUPS.get(way), fault_of(way)
    use = lightest(fault) if setup is None else None
    if use is not None:
        loaded = load(use.suite, CATALOGUE)
        path = find(use.suite)
    else:
        assert setup is not None
        path = folder / "suite.yaml"
        path.write_text(json.dumps(_suite(fault, setup)))
        loaded = load(str(path), CATALOGUE)
    plan = make_plan(loaded, None, facts.for_plan(path, list(loaded.targets)), CATALOGUE)
    wanted = "it" if use is None else use.scenario
    kept = [scenario for scenario in plan.scenarios if scenario.name == wanted]
    return Plan(**{**plan.__dict__, "scenarios": kept})


def needs_of(way: str) -> tuple[str, ...]:
    """The capabilities that a run with this fault needs here."""
    setup, fault = SETUPS.get(way), CATALOGUE[fault_of(way)]
    if setup is not None:
        return setup.needs
    kinds = {"nodes": NETNS, "process": ()}[fault.aims_at]
    return (*kinds, *(need for need in fault.needs if need == "gpu"))


def _suite(fault: str, setup: Setup) -> dict[str, object]:
    return {
        "suite": "undo",
        "seed": 1,
        "defaults": {
            "target": _target(setup.job),
            "bounds": {"detect": "5s", "recover": setup.recover, "run": "30s"},
        },
        "scenarios": [{"name": "it", "faults": [{"fault": fault, **setup.entry}]}],
    }


def _target(job: str) -> dict[str, object]:
    standin = {"kind": "custom", "file": str(STANDIN / "target.py"), "world": 3, "steps": 40}
    standin |= {"restart": "in_place"}
    runtime = {"kind": "recovery", "workload": "tiny_gpt", "world": 2, "steps": 20}
    match job:
        case "standin":
            return {**standin, "options": {"step_s": STEP_S}}
        case "busy":
            return {**standin, "options": {"step_s": STEP_S, "flags": ["--busy"]}}
        case "recovery":
            return {**runtime, "args": ["--steps", "20"]}
        case "loader":
            return {**runtime, "workload": "loader_mlp", "args": ["--steps", "20", "--workers", "1"]}
        case "checkpoints":
            return {
                **runtime,
                "workload": "saving",
                "steps": 40,
                "args": ["--steps", "40", "--checkpoints", "{work}/checkpoints"],
            }
        case kind:
            return {**_chatter(), "cluster": {"kind": kind, "nodes": 3}}


def _chatter() -> dict[str, object]:
    """A job that only counts: faults of nodes are proven by what probes them, not by what the job does."""
    program = ["{python}", str(JOBS / "chatter.py"), "60", "0.05"]
    return {
        "kind": "command",
        "argv": [*program, "{node_rank}", "{master_addr}", "{master_port}"],
        "world": 3,
        "steps": 60,
        "step": {"rule": "stdout", "pattern": r"^step (?P<step>\d+)$"},
    }
