"""From patches to one complete target: defaults and overrides merged, and every key held against the kind.

Pure: plain data in, plain data and problems out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos.suite.model import Bounds, ClusterPatch, StepRule, TargetPatch

COMMON = frozenset({"kind", "world", "steps", "env", "cwd", "ignore_files", "step", "restart"})
KEYS: Mapping[str, frozenset[str]] = {
    "recovery": COMMON - {"step", "restart"}
    | {"workload", "args", "sources", "preload", "spares", "max_restarts", "cluster"},
    "command": COMMON | {"argv", "digest", "cluster"},
    "custom": COMMON | {"file", "options", "digest"},
}
NEEDED: Mapping[str, tuple[str, ...]] = {
    "recovery": ("workload", "world", "steps"),
    "command": ("argv", "world"),
    "custom": ("file", "world"),
}
RUN_BOUND_S = 60.0


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a target: the key it concerns, what, and the remedy."""

    key: str
    message: str
    mend: str


def target_of(defaults: TargetPatch, patch: TargetPatch) -> tuple[dict[str, Any], list[Fault]]:
    """Merge a scenario's target over the suite's default and check it.

    `env` is merged key by key, everything else is replaced. Keys of the default that do not belong to the
    scenario's kind are dropped; keys that the scenario itself states and that do not belong are a problem.
    """
    base, own = _stated(defaults), _stated(patch)
    kind = own.get("kind") or base.get("kind")
    if kind is None:
        known = ", ".join(KEYS)
        return {}, [Fault("", "the target has no kind", f"add `kind:` with one of {known}")]
    allowed = KEYS[kind]
    problems = [
        Fault(
            key,
            f"the key {key!r} does not belong to a target of kind {kind!r}",
            f"kinds that have it: {_kinds(key)}",
        )
        for key in own
        if key not in allowed
    ]
    merged = {key: value for key, value in {**base, **own}.items() if key in allowed}
    merged["kind"] = kind
    if "env" in base and "env" in own:
        merged["env"] = {**base["env"], **own["env"]}
    for key in NEEDED[kind]:
        if merged.get(key) in (None, "", []):
            if key == "argv" and key in merged:
                continue  # an empty command line is an empty target, which is refused, not misspelt
            what = f"a target of kind {kind!r} needs {key!r}"
            problems.append(Fault("", what, f"add `{key}:` here or under defaults.target"))
    if merged.get("cluster") is not None:
        problems += _cluster_problems(ClusterPatch(**merged["cluster"]), merged.get("world"))
        # Complete, so that a stored plan does not depend on a default.
        merged["cluster"] = ClusterPatch(**merged["cluster"]).model_dump(exclude_none=True)
    else:
        merged.pop("cluster", None)
    if "step" in merged:
        problems += _step_problems(StepRule(**merged["step"]))
    return merged, problems


def empty_target(target: Mapping[str, Any]) -> str | None:
    """Why there would be nothing to run, or None: no rank, no step, or an empty command line."""
    if target.get("world") == 0:
        return "the target has no rank (world: 0)"
    if target.get("steps") == 0:
        return "the target makes no step (steps: 0)"
    if target.get("kind") == "command" and not target.get("argv"):
        return "the target has no command line (argv: [])"
    return None


def bounds_of(defaults: Bounds, own: Bounds) -> dict[str, float | None]:
    """The scenario's bounds in seconds; `detect_s` and `recover_s` are None where nothing is stated."""
    run = own.run or defaults.run or RUN_BOUND_S
    return {
        "detect_s": own.detect if own.detect is not None else defaults.detect,
        "recover_s": own.recover if own.recover is not None else defaults.recover,
        "run_s": run,
    }


def _stated(patch: TargetPatch) -> dict[str, Any]:
    return patch.model_dump(exclude_unset=True)


def _kinds(key: str) -> str:
    return ", ".join(kind for kind, keys in KEYS.items() if key in keys)


def _cluster_problems(cluster: ClusterPatch, world: int | None) -> list[Fault]:
    problems = []
    if world and world % cluster.nodes:
        what = f"{world} ranks cannot be spread evenly over {cluster.nodes} nodes"
        problems.append(Fault("cluster.nodes", what, f"make `world:` a multiple of {cluster.nodes}"))
    if cluster.image is not None and cluster.kind != "docker":
        what = f"a cluster of kind {cluster.kind!r} has no image"
        problems.append(Fault("cluster.image", what, "remove it, or write `kind: docker`"))
    return problems


def _step_problems(step: StepRule) -> list[Fault]:
    needed = {"every_n": "n", "stdout": "pattern"}.get(step.rule)
    used = {"optimizer": {"index"}, "every_n": {"index", "n"}, "stdout": {"pattern"}}[step.rule]
    problems = []
    if needed is not None and getattr(step, needed) is None:
        what = f"the step rule {step.rule!r} needs {needed!r}"
        problems.append(Fault("step", what, f"add `{needed}:` to the step rule"))
    for key in ("index", "n", "pattern"):
        if key not in used and getattr(step, key) is not None:
            problems.append(
                Fault(f"step.{key}", f"the step rule {step.rule!r} does not use {key!r}", "remove it")
            )
    if step.pattern is not None:
        problems += _pattern_problems(step.pattern)
    return problems


def _pattern_problems(pattern: str) -> list[Fault]:
    import re

    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        return [
            Fault("step.pattern", f"the pattern {pattern!r} is not a regular expression: {error}", "mend it")
        ]
    if groups == 0:
        mend = r"put the step's number in brackets, as in `step (\d+)`"
        return [Fault("step.pattern", f"the pattern {pattern!r} has no group for the step's number", mend)]
    return []
