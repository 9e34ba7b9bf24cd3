"""What an outsider should see of each fault: which recovery kind, on which rank.

The faults say it themselves (``Fault.expects``); a plan may carry it as ``expects``. Only what a single
word can't express is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

# gloo ends the process that receives more than its buffer holds, by SIGABRT (a fact of gloo, not of the
# runtime). Whoever is next to a rank that is out of step may die so, before or after the cause is seen.
MAY_ABORT = frozenset({"collective.mismatch", "collective.skip", "collective.extra"})
ABORT_SIGNAL = 6
# And if the sizes differ on purpose, who is seen to be out of step is open too.
ANY_RANK = frozenset({"collective.mismatch"})
ALSO_ACCEPTED: Mapping[str, frozenset[str]] = {
    "collective.mismatch": frozenset({"crash", "desync", "exception", "collective_error", "hang"}),
}


def expected_kinds(fault: Mapping[str, object], name: str) -> tuple[frozenset[str], bool]:
    """The recovery kinds that this fault may be reported as, and whether any rank may be named.

    Empty kinds: the fault should cause no recovery. Raises LookupError for a fault that neither the
    plan nor the catalogue explains.
    """
    expects = fault["expects"] if "expects" in fault else getattr(_fault_class(name), "expects", None)
    kinds: frozenset[str] = frozenset()
    if isinstance(expects, str):
        kinds = frozenset({expects})
    elif isinstance(expects, (list, tuple, set, frozenset)):
        kinds = frozenset(str(kind) for kind in expects)
    return (kinds | ALSO_ACCEPTED.get(name, frozenset()) if kinds else kinds), name in ANY_RANK


def needs_undo(fault: Mapping[str, object], name: str) -> bool:
    """Whether the fault leaves something behind that has to be undone."""
    known = fault["has_undo"] if "has_undo" in fault else getattr(_fault_class(name), "has_undo", False)
    return bool(known)


def _fault_class(name: str) -> type:
    """The fault's class, from the one catalogue."""
    # Imported here: a plan that carries `expects` and `has_undo` is judged without the injectors.
    found = import_module("injectors.catalogue").CATALOGUE.get(name)
    if not isinstance(found, type):
        raise LookupError(f"no fault named {name!r} in the catalogue, and the plan states no 'expects'")
    return found
