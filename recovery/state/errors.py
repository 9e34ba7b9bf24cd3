"""The one error of this package."""

from __future__ import annotations


class StateError(Exception):
    """Protected state can't be copied, moved or matched exactly.

    Attributes:
        path: where in the protected state, for example `model.layers.0.weight`.
        problem: what is wrong there.
        mend: what the user can do about it.
    """

    def __init__(self, path: str, problem: str, mend: str) -> None:
        super().__init__(f"{path}: {problem}\n  mend: {mend}")
        self.path = path
        self.problem = problem
        self.mend = mend
