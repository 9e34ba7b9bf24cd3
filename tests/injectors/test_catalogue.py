from __future__ import annotations

import inspect
import keyword
from importlib import import_module
from pathlib import Path

import pytest

import injectors
from injectors.catalogue import CATALOGUE, FAMILIES, collect, get
from injectors.fault import Fault, FaultError
from injectors.process.kill import ProcessKill

KINDS = ("crash", "stopped", "hang", "desync", "exception", "collective_error", "node_lost", None)
FAULTS = list(CATALOGUE.values())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
class TestEveryFault:
    def test_says_what_it_stands_for_and_what_it_does_not_certify(self, fault: type[Fault]) -> None:
        assert len(fault.stands_for) > 20
        assert len(fault.does_not_certify) > 20
        assert fault.summary().endswith((".", "any more.", "answers."))
        assert "Proof:" in (fault.__doc__ or "")
        assert "Undo:" in (fault.__doc__ or "")

    def test_has_a_file_of_its_own_named_after_it(self, fault: type[Fault]) -> None:
        family, effect = fault.id.split(".")
        root = Path(inspect.getfile(injectors)).parent
        # A word of Python's own cannot be imported; it gets an underscore.
        name = f"{effect}_" if keyword.iskeyword(effect) else effect
        assert Path(inspect.getfile(fault)) == root / family / f"{name}.py"

    def test_names_a_kind_of_recovery_that_exists(self, fault: type[Fault]) -> None:
        assert fault.expects in KINDS

    def test_describes_every_parameter(self, fault: type[Fault]) -> None:
        for parameter in fault.parameters():
            assert parameter.help
            assert parameter.check(parameter.default, fault.id) == parameter.default

    def test_refuses_a_parameter_that_it_does_not_have(self, fault: type[Fault]) -> None:
        with pytest.raises(FaultError, match="unknown parameter 'nonsense'"):
            fault.from_params({"nonsense": 1})

    def test_refuses_values_out_of_range_and_of_the_wrong_type(self, fault: type[Fault]) -> None:
        for parameter in fault.parameters():
            bad: list[object] = [[], {"a": 1}]
            if parameter.maximum is not None:
                bad.append(parameter.maximum + 1)
            if parameter.minimum is not None:
                bad.append(parameter.minimum - 1)
            if parameter.choices:
                bad.append("nonsense")
            if parameter.kind in ("int", "float"):
                bad += ["1", True, float("nan")]
            for value in bad:
                with pytest.raises(FaultError, match=parameter.name):
                    fault.from_params({parameter.name: value})


def test_families_are_complete() -> None:
    found: dict[str, list[str]] = {}
    for name in CATALOGUE:
        found.setdefault(name.split(".")[0], []).append(name.split(".")[1])
    assert sorted(found["host"]) == ["clock", "cpu_throttle", "memory"]
    assert sorted(found["storage"]) == ["bitflip", "eio", "enospc", "slow", "torn", "truncate"]
    assert sorted(found["process"]) == sorted(
        ["kill", "stop", "term", "segv", "abort", "exception", "gil_lock", "exit", "oom"]
    )
    assert sorted(found["collective"]) == sorted(
        ["hang", "delay", "error", "skip", "extra", "mismatch", "corrupt"]
    )
    assert sorted(found["numeric"]) == sorted(["bitflip", "nan", "scale"])


def test_every_fault_is_found_in_the_family_that_its_name_begins_with() -> None:
    listed = [fault.id for family in FAMILIES for fault in import_module(f"injectors.{family}").FAULTS]
    assert listed == list(CATALOGUE)
    assert len(CATALOGUE) == len(listed)
    assert [CATALOGUE[name].id for name in listed] == listed
    folders = {path.parent.name for path in Path(injectors.__path__[0]).glob("*/__init__.py")}
    # A new family that nobody named would have faults that nobody could use.
    assert folders - {"agent", "cluster"} == set(FAMILIES)


def test_a_name_of_no_fault_is_in_no_family() -> None:
    for name in ("process.kil", "agent.boot", "process", "", 5):
        assert name not in CATALOGUE


def test_a_duplicate_id_raises() -> None:
    with pytest.raises(AssertionError, match=r"process\.kill is claimed by ProcessKill and ProcessKill"):
        collect([ProcessKill, ProcessKill])


def test_an_unknown_fault_is_refused_with_the_nearest_name() -> None:
    assert get("process.stop").id == "process.stop"
    with pytest.raises(FaultError) as error:
        get("proces.stop")
    assert str(error.value) == "unknown fault 'proces.stop'\n  mend: did you mean 'process.stop'?"
