"""What the shell may offer where a name is expected. A person waits for it, so no engine is loaded."""

from __future__ import annotations

from collections.abc import Iterable


def suites(incomplete: str) -> list[str]:
    """Shipped suites; a path is left to the shell."""
    from importlib import resources

    # Not `chaos.suite.shipped`: that comes with all that reads a suite.
    folder = resources.files("suites")
    return _begin(incomplete, sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".yaml")))


def faults(incomplete: str) -> list[str]:
    """Faults; no family is imported whose name rules it out."""
    from injectors.catalogue import FAMILIES, Catalogue

    family, dot, _ = incomplete.partition(".")
    possible = [name for name in FAMILIES if (name == family if dot else name.startswith(family))]
    return _begin(incomplete, Catalogue(tuple(possible)))


def invariants(incomplete: str) -> list[str]:
    """Invariants."""
    from chaos.invariants import catalogue

    return _begin(incomplete, catalogue)


def anything(incomplete: str) -> list[str]:
    """All that `describe` knows."""
    return [*suites(incomplete), *faults(incomplete), *invariants(incomplete)]


def _begin(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
