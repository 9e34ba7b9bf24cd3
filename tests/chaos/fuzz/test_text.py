from __future__ import annotations

from chaos.fuzz import text
from chaos.fuzz.seen import FLAKY, INCONCLUSIVE, UNFINISHED, Found, Round, Seen
from chaos.report.coverage import Cell
from tests.chaos.fuzz.spaces import space

KILL = Cell("process.kill", "backward", "rank 0")
SOURCE = Cell("process.kill", "transfer", "transfer_source")


def rounds() -> list[Round]:
    return [
        Round(1, "tiny_gpt", (KILL, SOURCE), (KILL,), (KILL,), wall_s=2.5),
        Round(2, "tiny_gpt", (KILL, SOURCE), (KILL,), (), INCONCLUSIVE, reason="f2 did not fire"),
        Round(3, "tiny_gpt", (KILL,), (KILL,), (), FLAKY, 1, 3, "replicas_agree: they differ"),
    ]


def test_the_table_shows_counts_blanks_and_what_was_tried_in_vain() -> None:
    assert text.table(space(), Seen.of(rounds())) == [
        "fault            role             forward  backward  optimizer  transfer",
        "collective.hang  another rank                     .",
        "collective.hang  rank 0                           .",
        "process.kill     another rank           .         .          .         .",
        "process.kill     rank 0                 .         3          .         .",
        "process.kill     transfer_source                                       ?",
    ]


def test_each_round_is_one_line() -> None:
    of, seen = space(), Seen.of(rounds())
    lines = [text.round_line(one, seen, of) for one in rounds()]
    assert lines[0] == (
        "round 1   2.50 s  PASS          tiny_gpt: process.kill backward rank 0"
        " + process.kill transfer transfer_source  +1 new  [1 of 11]"
    )
    assert lines[1].endswith("[1 of 11]  f2 did not fire")
    assert lines[2].endswith("[1 of 11]  1 of 3 runs failed: replicas_agree: they differ")
    again = Round(4, "tiny_gpt", (KILL,), (KILL,), (), "KNOWN", 1, 1, again="0002-replicas_agree")
    assert text.round_line(again, seen, of).endswith("as finding 0002-replicas_agree")


def test_the_end_says_what_was_found_and_how_to_see_it_again() -> None:
    seen = Seen.of(rounds())
    seen.found.append(
        Found("0002-replicas_agree", "replicas_agree", ("process.kill",), "nothing smaller fails")
    )
    lines = text.closing(space(), seen, "reports/fuzz/small", [rounds()[2]])
    assert lines[-8:] == [
        "(a number: times reached; . not yet; ? tried in vain)",
        "1 of 11 cells reached, 1 tried in vain",
        "3 rounds: 1 FLAKY, 1 INCONCLUSIVE, 1 PASS",
        "FOUND 0002-replicas_agree: replicas_agree does not hold with process.kill (nothing smaller fails)",
        "    replay: torch-chaos replay reports/fuzz/small/findings/0002-replicas_agree/plan.json",
        "    reports: reports/fuzz/small/rounds/0002",
        "FLAKY, round 3: 1 of 3 runs failed: replicas_agree: they differ",
        "    reports: reports/fuzz/small/rounds/0003",
    ]


def test_what_was_not_shrunk_to_the_end_can_be_later() -> None:
    said = f"{UNFINISHED}: the time was up after 3 runs"
    lines = text.finding(Found("0007-replicas_agree", "replicas_agree", ("process.kill",), said), "out")
    assert lines[2] == (
        "    shrink: torch-chaos shrink out/findings/0007-replicas_agree/plan.json --invariant replicas_agree"
    )


def test_the_beginning_says_what_is_drawn_and_what_is_not() -> None:
    of = space(why_not=lambda name: "not here\n  mend: elsewhere" if name == "collective.hang" else None)
    assert text.opening(of) == [
        "small: 9 cells (fault x phase x role)",
        "  tiny_gpt: 4 ranks, 30 steps; 9 cells; up to 2 faults a plan",
        "  left out: collective.hang: not here; elsewhere",
    ]
