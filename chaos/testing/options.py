"""The plugin's options. Command line beats environment, environment beats ini file, ini file beats default.

A marker's argument is the test's own choice and stands above all of them.
"""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROFILES = ("dev", "ci", "nightly")
SEEDS = 2**31


class BadOption(ValueError):
    """A value that an option cannot have; the message names where it came from and what it may be."""


@dataclass(frozen=True)
class Option:
    """One option and its twins: `--torch-chaos-NAME`, ini `torch_chaos_NAME`, `TORCH_CHAOS_NAME`."""

    name: str
    metavar: str
    help: str

    @property
    def flag(self) -> str:
        """On the command line."""
        return f"--torch-chaos-{self.name}"

    @property
    def key(self) -> str:
        """In the ini file, and the name under which pytest keeps it."""
        return f"torch_chaos_{self.name}"

    @property
    def variable(self) -> str:
        """In the environment."""
        return self.key.upper()


OPTIONS = (
    Option(
        "seed",
        "N|last|random",
        "root of every random choice: a number, that of the last run with one, or a new one "
        "(default: the suite's own, 0 for a function)",
    ),
    Option("profile", "|".join(PROFILES), "how long recovery properties search (default: dev)"),
    Option(
        "report", "DIR", "keep the reports of all tests here (default: those of failed ones, in pytest's tmp)"
    ),
    Option(
        "require",
        "NAME,...",
        "fail where a test would be skipped because this machine lacks one of these: a fault, a family of "
        "faults, a kind of cluster, torch, or all",
    ),
    Option("repeat", "K", "run each scenario K times (default: 1)"),
)


@dataclass(frozen=True)
class Given:
    """One value, and where it came from, in words."""

    value: str
    source: str


def given(option: Option, line: str | None, environ: Mapping[str, str], ini: str) -> Given | None:
    """The value that counts; None where nobody gave one. An empty one counts as none."""
    for value, source in (
        (line, option.flag),
        (environ.get(option.variable), option.variable),
        (ini, f"{option.key} in the ini file"),
    ):
        if value:
            return Given(value, source)
    return None


@dataclass(frozen=True)
class Seed:
    """The session's seed. `number` is None where every suite and marker has its own."""

    number: int | None = None
    how: str = "each suite's own, 0 for a function"

    @classmethod
    def of(cls, found: Given | None, last: Callable[[], Any]) -> Seed:
        """Read the option.

        Args:
            found: what was given.
            last: the last run's seed, as it was kept.

        Raises:
            BadOption: no number and no word that is known, or there was no last run.
        """
        if found is None:
            return cls()
        if found.value == "random":
            return cls(secrets.randbelow(SEEDS), "drawn")
        if found.value == "last":
            kept = last()
            if not isinstance(kept, int):
                raise BadOption(
                    f"{found.source}=last: no earlier run with a seed is known\n  mend: name a number"
                )
            return cls(kept, "that of the last run")
        return cls(_number(found, 0), found.source)


def _number(found: Given, least: int) -> int:
    if not found.value.isdecimal() or int(found.value) < least:
        raise BadOption(f"{found.source}={found.value}: not a whole number from {least} on")
    return int(found.value)


@dataclass(frozen=True)
class Options:
    """All of them, read."""

    seed: Seed = Seed()
    profile: str = "dev"
    report: Path | None = None
    require: frozenset[str] = field(default_factory=frozenset)
    repeat: int = 1

    @classmethod
    def of(
        cls,
        found: Mapping[str, Given | None],
        last: Callable[[], Any],
        folder: Path,
        known: Callable[[], Collection[str]],
    ) -> Options:
        """Read what was given, by option.

        Args:
            found: what counts, by the option's name.
            last: the last run's seed, as it was kept.
            folder: where a relative report folder starts.
            known: the names that can be required; asked only if some are.

        Raises:
            BadOption: a value that its option cannot have.
        """
        profile, report, repeat = found.get("profile"), found.get("report"), found.get("repeat")
        if profile is not None and profile.value.removeprefix("torch-chaos-") not in PROFILES:
            raise BadOption(
                f"{profile.source}={profile.value}: not a profile\n  mend: one of {', '.join(PROFILES)}"
            )
        return cls(
            seed=Seed.of(found.get("seed"), last),
            profile="dev" if profile is None else profile.value.removeprefix("torch-chaos-"),
            report=None if report is None else folder / report.value,
            require=_names(found.get("require"), known),
            repeat=1 if repeat is None else _number(repeat, 1),
        )


def _names(found: Given | None, known: Callable[[], Collection[str]]) -> frozenset[str]:
    if found is None:
        return frozenset()
    names = dict.fromkeys(found.value.replace(",", " ").split())
    allowed = sorted(known())
    unknown = next((name for name in names if name not in allowed), None)
    if unknown is not None:
        close = difflib.get_close_matches(unknown, allowed, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        mend = f"{hint}one of {', '.join(allowed)}"
        raise BadOption(f"{found.source}={found.value}: unknown name {unknown!r}\n  mend: {mend}")
    return frozenset(names)


def known_names() -> Collection[str]:
    """What can be required."""
    from chaos.testing.needs import names  # the engine: not before someone asks for it

    return names()


def from_environment() -> Options:
    """The options outside of pytest."""
    found = {option.name: given(option, None, os.environ, "") for option in OPTIONS}
    return Options.of(found, lambda: None, Path.cwd(), known_names)
