"""What a simulated run has done wrong."""

from __future__ import annotations


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name, a sentence that should be true."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail

    def __reduce__(self) -> tuple[type[Violation], tuple[str, str]]:
        # An exception is built again from its message alone, which is not what this one takes.
        return Violation, (self.invariant, self.detail)
