"""The one list of faults. Help, documentation and suite validation are generated from it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from injectors import collective, data, gpu, host, net, node, numeric, process, storage, store
from injectors.fault import Fault, FaultError


def collect(faults: Iterable[type[Fault]]) -> dict[str, type[Fault]]:
    """Fault classes by id, in the order given.

    Raises:
        AssertionError: two classes share an id.
    """
    found: dict[str, type[Fault]] = {}
    for fault in faults:
        if fault.id in found:
            raise AssertionError(f"{fault.id} is claimed by {found[fault.id].__name__} and {fault.__name__}")
        found[fault.id] = fault
    return found


_FAMILIES = (process, collective, store, net, gpu, host, storage, data, numeric, node)
CATALOGUE: dict[str, type[Fault]] = collect(fault for family in _FAMILIES for fault in family.FAULTS)


def get(fault_id: str) -> type[Fault]:
    """The class of a fault.

    Raises:
        FaultError: no such fault; names the nearest one.
    """
    if fault_id in CATALOGUE:
        return CATALOGUE[fault_id]
    near = difflib.get_close_matches(str(fault_id), CATALOGUE, n=1)
    mend = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(CATALOGUE)}"
    raise FaultError(f"unknown fault {fault_id!r}\n  mend: {mend}")
