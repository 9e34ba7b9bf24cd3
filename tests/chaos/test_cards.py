"""What is known of a fault: all of it is said, and `untested` is not a place to hide a fault."""

from __future__ import annotations

import json

import pytest

from chaos import cards
from injectors.catalogue import CATALOGUE
from injectors.fault import AGENT
from injectors.process.kill import ProcessKill
from injectors.process.stop import ProcessStop

CARDS = {card["id"]: card for card in cards.cards()}
AIMED_AT_NOTHING = cards.uses(aimed_at_nothing=True)


def test_every_fault_has_a_card_that_is_json() -> None:
    assert list(CARDS) == list(CATALOGUE)
    again = json.loads(json.dumps(CARDS))
    assert [card["summary"] for card in again.values()] == [fault.summary() for fault in CATALOGUE.values()]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_card_says_all_of_it(name: str) -> None:
    card = CARDS[name]
    assert len(card["evidence"]) > 10
    assert len(card["undo"]) > 3
    assert card["mechanisms"], "`doctor` could not say how it comes about here"
    assert all(way["name"] and way["fidelity"] for way in card["mechanisms"])


@pytest.mark.parametrize("name", CATALOGUE)
def test_only_what_needs_absent_hardware_or_kernel_options_is_untested(name: str) -> None:
    fault = CATALOGUE[name]
    absent = [need for need in fault.needs if need in cards.ABSENT_IN_CI]
    assert (CARDS[name]["untested"] is not None) == bool(absent), CARDS[name]["untested"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_shipped_suite_has_it(name: str) -> None:
    assert CARDS[name]["exercised_by"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_shipped_suite_aims_it_at_nothing(name: str) -> None:
    """The negative control: a fault that does not happen must be told from one that does no harm."""
    assert AIMED_AT_NOTHING.get(name)


def test_needs_are_of_a_kind_that_is_known() -> None:
    needs = {need for fault in CATALOGUE.values() for need in fault.needs}
    assert needs <= set(cards.ABSENT_IN_CI)


def test_untested_says_why() -> None:
    class NeedsGpu(ProcessKill):
        needs = ("gpu",)

    assert cards.untested(ProcessKill, []) == "no scenario of a shipped suite has it"
    assert cards.untested(ProcessKill, [cards.Use("smoke", "kill")]) is None
    assert "no GPU" in str(cards.untested(NeedsGpu, [cards.Use("gpu", "x")]))


def test_a_scenario_aimed_at_nothing_does_not_exercise_a_fault() -> None:
    nothing = {use for used in AIMED_AT_NOTHING.values() for use in used}
    assert nothing
    assert nothing & {use for used in cards.uses().values() for use in used} == set()


def test_what_a_docstring_says_after_a_title() -> None:
    assert cards.said(ProcessStop, "Proof") == "the kernel reports process state T."
    assert cards.said(ProcessStop, "Undo") == "SIGCONT; repeatable, harmless if the process is gone."
    assert cards.said(ProcessStop, "Source") == ""


def test_what_acts_inside_needs_the_agent_unless_it_says_otherwise() -> None:
    assert CARDS["collective.hang"]["mechanisms"][0]["name"] == AGENT.name
    assert AGENT.probe() is None
