"""Malformed suites: every problem at once, with line, key path and remedy, and nothing else is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.suite import SuiteError, load_text
from injectors.catalogue import CATALOGUE

HEAD = """\
suite: s
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 30}
scenarios:
"""
FAULT = """\
  - name: a
    faults:
      - fault: {fault}
        where: {where}
        when: {when}
"""


def fault(
    fault: str = "process.kill", where: str = "{rank: 1}", when: str = "{step: 3}", more: str = ""
) -> str:
    text = HEAD + FAULT.format(fault=fault, where=where, when=when)
    return text + "".join(f"        {line}\n" for line in more.splitlines())


MALFORMED = {
    "empty_file": "",
    "a_list_instead_of_a_mapping": "- a\n- b\n",
    "broken_yaml": "suite: s\nscenarios: [\n  - a\n",
    "key_there_twice": "suite: s\nseed: 1\nseed: 2\nscenarios: []\n",
    "key_that_is_no_string": "suite: s\n3: x\nscenarios: []\n",
    "no_scenario": "suite: s\nscenarios: []\n",
    "keys_missing": "description: nothing else\n",
    "key_misspelt": "suite: s\nsed: 3\nscenarios: [{name: a, fault: []}]\n",
    "fault_unknown": fault("proces.stop"),
    "fault_without_resemblance": fault("meteorite"),
    "parameter_unknown": fault("process.stop", more="with: {duration: 2}"),
    "parameter_of_wrong_kind": fault("process.stop", more="with: {duration_s: long}"),
    "parameter_out_of_range": fault("process.stop", more="for: 0s"),
    "duration_without_unit": fault("process.stop", more="for: 2"),
    "duration_of_a_fault_that_has_none": fault("process.kill", more="for: 2s"),
    "rank_out_of_world": fault(where="{rank: 4}"),
    "rank_and_role": fault(where="{rank: 1, role: lowest_live}"),
    "rank_and_node": fault(where="{rank: 1, node: 0}"),
    "node_for_a_fault_of_processes": fault(where="{node: 0}"),
    "node_without_nodes": fault("node.kill", where="{node: 0}"),
    "node_of_a_local_cluster": fault("node.kill", where="{node: 0}").replace(
        "steps: 30}", "steps: 30, cluster: {kind: local, nodes: 2}}"
    ),
    "node_out_of_cluster": fault("node.kill", where="{node: 2}").replace(
        "steps: 30}", "steps: 30, cluster: {kind: netns, nodes: 2}}"
    ),
    "cluster_uneven_and_with_an_image": fault("node.kill", where="{node: other}").replace(
        "steps: 30}", "steps: 30, cluster: {kind: netns, nodes: 3, image: debian}}"
    ),
    "cluster_unknown_and_empty": fault().replace("steps: 30}", "steps: 30, cluster: {kind: vm, nodes: 0}}"),
    "no_address": fault(where="{}"),
    "role_unknown": fault(where="{role: boss}"),
    "role_misspelt": fault(where="{role: lowest_alive}"),
    "no_moment": fault(when="{}"),
    "phase_unknown": fault(when="{step: 3, phase: backwards}"),
    "event_unknown": fault(when="{event: recovery.transfers}"),
    "collective_unknown": fault("collective.hang", when="{collective: {op: allreduce, nth: 0}}"),
    "inside_fault_by_time": fault("process.exception", when="{after_s: 1s}"),
    "after_a_fault_that_is_not_there": fault(when="{after_fault: first, after_s: 10ms}"),
    "range_backwards": fault(when="{step: [9, 3]}"),
    "scenario_twice": HEAD + "  - {name: a}\n  - {name: a}\n",
    "name_with_blanks": HEAD + "  - {name: a b}\n",
    "verdict_unknown": HEAD + "  - {name: a, expect: FINE}\n",
    "world_is_text": "suite: s\nscenarios:\n  - name: a\n    target: {kind: recovery, world: four}\n",
    "target_without_kind": "suite: s\nscenarios:\n  - name: a\n    target: {world: 2}\n",
    "target_lacks_keys": "suite: s\nscenarios:\n  - name: a\n    target: {kind: command, argv: [x]}\n",
    "key_of_another_kind": HEAD + "  - name: a\n    target: {argv: [torchrun]}\n",
    "step_rule_incomplete": (
        "suite: s\nscenarios:\n  - name: a\n"
        "    target: {kind: command, argv: [x], world: 1, step: {rule: every_n}}\n"
    ),
    "step_pattern_without_group": (
        "suite: s\nscenarios:\n  - name: a\n"
        "    target: {kind: command, argv: [x], world: 1, step: {rule: stdout, pattern: 'step'}}\n"
    ),
    "many_at_once": """\
suite: s
seed: minus one
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, steps: 30}
  bounds: {detect: fast, run: 1m}
scenarios:
  - name: a
    faults:
      - fault: process.kil
        where: {rank: 9}
        when: {step: 99, phase: foreward}
  - name: a
    faults:
      - fault: process.stop
        where: {rank: -1}
        when: {step: 3}
        for: 2
        fro: 3s
""",
}


def said(text: str) -> str:
    with pytest.raises(SuiteError) as caught:
        load_text(text, "suite.yaml", CATALOGUE)
    return str(caught.value)


def test_every_malformed_suite_is_refused_with_these_words(golden: Callable[[str, str], None]) -> None:
    parts = [f"== {name}\n{said(text)}\n" for name, text in MALFORMED.items()]
    golden("malformed_suites.txt", "\n".join(parts))


@pytest.mark.parametrize("name", MALFORMED)
def test_every_problem_has_a_line_and_a_remedy(name: str) -> None:
    with pytest.raises(SuiteError) as caught:
        load_text(MALFORMED[name], "suite.yaml", CATALOGUE)
    lines = max(1, MALFORMED[name].count("\n"))
    assert caught.value.problems
    for problem in caught.value.problems:
        assert 1 <= problem.line <= lines + 1
        assert problem.message
        assert problem.mend
    assert caught.value.exit_code == 64
