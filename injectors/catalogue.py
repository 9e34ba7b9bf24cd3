"""The one list of faults. Help, documentation and suite validation are generated from it."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator, Mapping

from injectors.fault import Fault, FaultError

FAMILIES = ("process", "collective", "store", "net", "gpu", "host", "storage", "data", "numeric", "node")
"""The packages that faults are in, in the order in which they are listed; `FAULTS` of each has its own."""


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


class Catalogue(Mapping[str, type[Fault]]):
    """Fault classes by id, `family.effect`. A family is imported when it is first asked for one.

    To make half a hundred classes takes a fifth of a second, and most suites name faults of two families.
    """

    def __init__(self, families: tuple[str, ...]) -> None:
        self._families = families
        self._found: dict[str, dict[str, type[Fault]]] = {}

    def __getitem__(self, fault_id: str) -> type[Fault]:
        family = str(fault_id).partition(".")[0]
        if family not in self._families:
            raise KeyError(fault_id)
        return self._of(family)[fault_id]

    def __iter__(self) -> Iterator[str]:
        for family in self._families:
            yield from self._of(family)

    def __len__(self) -> int:
        return sum(len(self._of(family)) for family in self._families)

    def _of(self, family: str) -> dict[str, type[Fault]]:
        if family not in self._found:
            self._found[family] = collect(importlib.import_module(f"injectors.{family}").FAULTS)
        return self._found[family]


CATALOGUE = Catalogue(FAMILIES)


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
