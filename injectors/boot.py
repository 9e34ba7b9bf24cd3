"""Put the agent into a target: the environment it needs and the configuration it reads."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from injectors import catalogue, roles
from injectors.agent import trigger
from injectors.fault import FaultError

PROTOCOL = 1
VARIABLE = "TORCH_CHAOS_AGENT"
BOOT_FOLDER = Path(__file__).parent / "agent" / "boot"
STEP_RULES = ("optimizer", "every_n", "stdout")


def environment(agent_json_path: str | os.PathLike[str], env: Mapping[str, str]) -> dict[str, str]:
    """The environment of a target with the agent in it.

    PYTHONPATH gets the boot folder in front; its `sitecustomize` chains to the next one on the path.
    `python -I`, `-E` and `-S` ignore it: nothing can be put in such a target this way.
    """
    rest = [part for part in env.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(BOOT_FOLDER)]
    return {
        **env,
        "PYTHONPATH": os.pathsep.join([str(BOOT_FOLDER), *rest]),
        VARIABLE: os.fspath(agent_json_path),
    }


def write_config(path: str | os.PathLike[str], config: Mapping[str, Any]) -> None:
    """Validate agent.json and write it in one go, mode 0600.

    Raises:
        FaultError: what is wrong and how to mend it.
    """
    check_config(config)
    faults = [complete(fault) for fault in config.get("faults", ())]
    target = Path(path)
    fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump({**config, "faults": faults}, file)
    os.replace(temporary, target)


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse a configuration that the agent would misread.

    Raises:
        FaultError: what is wrong and how to mend it.
    """
    if config.get("protocol") != PROTOCOL:
        raise FaultError(f"agent.json: protocol {config.get('protocol')!r}, this agent speaks {PROTOCOL}")
    for key in ("run", "socket", "events"):
        if not isinstance(config.get(key), str) or not config[key]:
            raise FaultError(f"agent.json: {key} must be text, got {config.get(key)!r}")
    if config.get("step_source", "agent") not in ("agent", "recovery"):
        raise FaultError(f"agent.json: step_source {config['step_source']!r} is neither agent nor recovery")
    _check_step_rule(config.get("step_rule") or {})
    seen: set[str] = set()
    for fault in config.get("faults", ()):
        if fault["id"] in seen:
            raise FaultError(f"agent.json: two faults have the id {fault['id']!r}")
        seen.add(fault["id"])
        check_fault(fault)


def complete(fault: Mapping[str, Any]) -> dict[str, Any]:
    """A planned fault with every parameter: the agent has no defaults of its own."""
    kind = catalogue.get(fault["name"])
    built = kind.from_params(fault.get("params") or {})
    params = {item.name: getattr(built, item.name) for item in kind.parameters()}
    return {**fault, "inside": kind.inside, "params": params}


def check_fault(fault: Mapping[str, Any]) -> None:
    """Refuse a planned fault whose name, parameters, address or trigger make no sense.

    Raises:
        FaultError: what is wrong and how to mend it.
    """
    kind = catalogue.get(fault["name"])
    kind.from_params(fault.get("params") or {})
    if fault.get("inside", kind.inside) != kind.inside:
        raise FaultError(f"{fault['name']}: inside must be {kind.inside}")
    roles.check_where(fault["where"])
    try:
        trigger.check(fault["when"])
    except ValueError as error:
        raise FaultError(f"{fault['name']}: {error}") from None


def _check_step_rule(rule: Mapping[str, Any]) -> None:
    name = rule.get("rule", "optimizer")
    if name not in STEP_RULES:
        raise FaultError(f"step rule {name!r} is unknown\n  mend: one of {', '.join(STEP_RULES)}")
    allowed = {
        "optimizer": {"rule", "index"},
        "every_n": {"rule", "n", "index"},
        "stdout": {"rule", "pattern"},
    }
    extra = set(rule) - allowed[name]
    if extra:
        raise FaultError(f"step rule {name}: unknown {', '.join(sorted(extra))}")
    if name == "every_n" and not (isinstance(rule.get("n"), int) and rule["n"] >= 1):
        raise FaultError(f"step rule every_n: n must be a whole number from 1 on, got {rule.get('n')!r}")
