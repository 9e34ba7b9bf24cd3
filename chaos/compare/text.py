"""A comparison and a trend for people, and as plain data. Pure."""

from __future__ import annotations

from dataclasses import asdict

from chaos.compare.compare import ALL, Change, Comparison, TimeChange, VerdictChange
from chaos.report.table import aligned, seconds

HEADINGS = ("time", "scenario", "before", "after", "ratio", "larger", "p", "")


def rows_of(found: Comparison, *, everything: bool) -> list[tuple[str, ...]]:
    """The table of times: what changed and all scenarios together, or with `everything` each scenario too."""
    shown = [
        one
        for one in found.times
        if everything or one.scenario == ALL or one.change in (Change.SLOWER, Change.FASTER)
    ]
    if not any(one.scenario == ALL for one in found.times):
        shown = list(found.times)
    return [_row(one) for one in shown]


def _row(one: TimeChange) -> tuple[str, ...]:
    told = "~" if not one.test.exact else ""
    return (
        one.timed,
        one.scenario,
        f"{seconds(one.median_s[0])} (n={one.count[0]})",
        f"{seconds(one.median_s[1])} (n={one.count[1]})",
        f"{one.ratio:.2f}",
        f"{one.test.superiority:.0%}",
        f"{told}{one.test.p:.2g}",
        str(one.change),
    )


def lines_of(found: Comparison, *, everything: bool = False) -> list[str]:
    """The whole comparison as lines of text; the last one is the outcome."""
    changed = [one for one in found.verdicts if one.worse or one.before != one.after]
    lines = [_verdict_line(one) for one in changed]
    lines.append(f"verdicts: {len(found.verdicts)} scenarios compared, {len(found.worse)} worse")
    rows = rows_of(found, everything=everything)
    if rows:
        lines += ["", *aligned([HEADINGS, *rows]), ""]
    lines.append(_rule(found))
    lines += [f"note: {note}" for note in found.notes]
    return [*lines, outcome_of(found)]


def _verdict_line(one: VerdictChange) -> str:
    mark = "WORSE" if one.worse else "changed"
    return f"{mark} {one.scenario}: {one.before} -> {one.after}"


def _rule(found: Comparison) -> str:
    limits = found.limits
    return (
        f"slower: ratio over {limits.slower_than:g} (shorter times count as {seconds(limits.floor_s)})"
        f" and p at most {found.p_limit:.2g}, which is {limits.alpha:g} for all comparisons together;"
        " larger: in how many pairs the later time is the larger one; ~: p approximated"
    )


def outcome_of(found: Comparison) -> str:
    """One line: what regressed, or that nothing did, or that it cannot be told."""
    if found.regressed:
        parts = [f"{one.timed} of {one.scenario} {one.ratio:.2f} times" for one in found.slower]
        parts += [f"{one.scenario} {one.before} -> {one.after}" for one in found.worse]
        return f"REGRESSED: {'; '.join(parts)}"
    if not found.verdicts:
        return "INCONCLUSIVE: the two have no scenario in common"
    if not found.tells:
        return "INCONCLUSIVE: too few repeats to tell whether anything is slower; run both with --repeat 10"
    return "no regression"


def data_of(found: Comparison) -> dict[str, object]:
    """Plain data, as `--format json` prints it."""
    return {**asdict(found), "regressed": found.regressed, "outcome": outcome_of(found)}
