"""A fault's parameters as a suite writes them, held against the fault's own description of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.suite import durations
from injectors.fault import Fault, FaultError, Parameter


def params_of(fault: type[Fault]) -> dict[str, Parameter]:
    """The parameters of a fault by name."""
    return {parameter.name: parameter for parameter in fault.parameters()}


def plain_value(parameter: Parameter, value: Any) -> Any:
    """A value as the fault takes it: a parameter in seconds may be written as a duration, `200ms`."""
    if parameter.unit == "s" and isinstance(value, str):
        try:
            return durations.seconds(value)
        except ValueError:
            return value
    return value


def problem_of(fault: type[Fault], parameter: Parameter, value: Any) -> tuple[str, str] | None:
    """What is wrong with one value and how to mend it; None if nothing is."""
    try:
        parameter.check(plain_value(parameter, value), fault.id)
    except FaultError as error:
        message, _, mend = str(error).partition("\n  mend: ")
        return message, mend or f"{parameter.help} ({parameter.kind})"
    return None


def joint_problem(fault: type[Fault], values: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with values that are each fine; None if nothing is."""
    known = params_of(fault)
    try:
        fault.from_params({key: plain_value(known[key], value) for key, value in values.items()})
    except FaultError as error:
        message, _, mend = str(error).partition("\n  mend: ")
        return message, mend or f"see `torch-chaos describe {fault.id}`"
    return None


def complete(fault: type[Fault], values: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their values, defaults included, so that a stored plan does not depend on them."""
    known = params_of(fault)
    built = fault.from_params({key: plain_value(known[key], value) for key, value in values.items()})
    return {name: getattr(built, name) for name in known}
