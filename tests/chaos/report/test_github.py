"""What GitHub Actions is told: workflow commands, and the summary in Markdown."""

from __future__ import annotations

from chaos.report.github import Place, commands, summary
from chaos.report.model import Report
from tests.chaos.report.sample import report


def sample() -> Report:
    return Report.model_validate(report())


def changed(**more: object) -> Report:
    """The sample with its second scenario, which is VIOLATED, changed."""
    data = sample().model_dump(mode="json")
    data["scenarios"][1] |= more
    return Report.model_validate(data)


def test_each_scenario_that_surprises_has_one_command_at_its_line() -> None:
    found = commands(
        sample(), {"stale_state": Place("suites/my.yaml", 12), "kill_in_backward": Place("x", 1)}
    )
    assert [line.partition("::")[2].split("::")[0] for line in found] == [
        "error file=suites/my.yaml,line=12,title=VIOLATED%3A stale_state",
        "error title=PASS%3A control_missed",
        "error title=INCONCLUSIVE%3A never_fires",
        "error title=ERROR%3A raises_at_import",
    ]
    assert found[1].endswith(
        "(expected VIOLATED by state_equals_twin)"
        "%0Areplay: torch-chaos replay reports/sample/plan.json --only control_missed"
    )


def test_what_junit_skips_is_a_warning() -> None:
    levels = {
        how: [line.split(" ")[0] for line in commands(sample(), {}, how)] for how in ("error", "fail", "skip")
    }
    assert levels["error"] == levels["fail"] == ["::error"] * 4
    assert levels["skip"] == ["::error", "::error", "::warning", "::error"]


def test_no_text_can_end_a_command_or_start_another() -> None:
    hostile = "100 %\r\n::set-output name=x::y, z: w"
    (line, *_) = commands(
        changed(reason=hostile, name="a,b:c%d"), {"a,b:c%d": Place("dir,with:signs/50%.yaml", 3)}
    )
    assert line.count("\n") == line.count("\r") == 0
    assert line.startswith(
        "::error file=dir%2Cwith%3Asigns/50%25.yaml,line=3,title=VIOLATED%3A a%2Cb%3Ac%25d::"
        "100 %25%0D%0A::set-output name=x::y, z: w%0A"
    )


def test_a_repeat_is_shown_at_its_scenario() -> None:
    data = sample().model_dump(mode="json")
    one = data["scenarios"][1]
    data["scenarios"] = [{**one, "name": f"stale_state.{number}"} for number in (1, 2)]
    found = commands(Report.model_validate(data), {"stale_state": Place("s.yaml", 4)})
    assert [line.split("title=")[0] for line in found] == ["::error file=s.yaml,line=4,"] * 2


def test_the_summary_has_every_scenario_and_a_command_for_what_surprises() -> None:
    lines = summary(sample(), ["transfer  2.00  slower", "REGRESSED: transfer"]).splitlines()
    assert lines[0] == "## torch-chaos sample: 1 ERROR, 1 INCONCLUSIVE, 2 PASS, 2 VIOLATED"
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(sample().scenarios)
    assert len({line.count(" | ") for line in table}) == 1
    assert table[2].startswith("| kill\\_in\\_backward | PASS | 3/3 | ")
    assert table[3].startswith("| **stale\\_state** | **VIOLATED** | ")
    assert "torch-chaos replay reports/sample/plan.json --only never_fires" in lines
    assert lines[lines.index("### Against the baseline") + 3] == "transfer  2.00  slower"
    assert lines[-1] == "</details>"


def test_evidence_stays_in_its_cell() -> None:
    text = summary(changed(reason="a|b `c` <script> &amp; *d*\nnext [x](y) " + "z" * 500, replay="x ``` y"))
    (row,) = [line for line in text.splitlines() if line.startswith("| **stale")]
    assert "a\\|b \\`c\\` &lt;script&gt; &amp;amp; \\*d\\* next \\[x\\](y) zzz" in row
    assert row.endswith("z… |")
    assert len(row) < 500
    assert "````text\nx ``` y\n````" in text
