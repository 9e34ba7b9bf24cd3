"""DDP on a layout that never changes, made anew when the generation does."""

from __future__ import annotations

import pytest
import torch

from recovery import data_parallel
from recovery.data_parallel import DataParallel
from recovery.errors import RecoveryError
from recovery.shell.rehearsal import Rehearsal


class Counting(Rehearsal):
    """Notes the sizes of what is reduced."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def allreduce(self, tensors: list[torch.Tensor], opts: object = None) -> object:
        self.sizes += [tensor.numel() for tensor in tensors]
        return super().allreduce(tensors, opts)


class Place:
    generation, step = 1, 0

    def __call__(self) -> tuple[int, int]:
        return self.generation, self.step


@pytest.fixture
def model() -> torch.nn.Module:
    return torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])


def reduced_by_one_step(wrapped: DataParallel, group: Counting) -> list[int]:
    group.sizes.clear()
    wrapped(torch.randn(2, 64)).sum().backward()
    return list(group.sizes)


def test_the_layout_does_not_change_after_the_first_step(model: torch.nn.Module) -> None:
    group, place = Counting(), Place()
    wrapped = DataParallel(model, group, place, {"bucket_cap_mb": 0.03})
    layouts = [reduced_by_one_step(wrapped, group) for _ in range(3)]
    assert layouts[0] == layouts[1] == layouts[2]
    place.generation = 2
    assert reduced_by_one_step(wrapped, group) == layouts[0]


def test_plain_ddp_would_change_it(model: torch.nn.Module) -> None:
    group = Counting()
    ddp = torch.nn.parallel.DistributedDataParallel(
        model, process_group=group, init_sync=False, bucket_cap_mb=0.03
    )
    layouts = [reduced_by_one_step(ddp, group) for _ in range(2)]
    assert layouts[0] != layouts[1]


def test_a_new_generation_reduces_once(model: torch.nn.Module) -> None:
    group, place = Counting(), Place()
    wrapped = DataParallel(model, group, place, {})
    kept = wrapped(torch.randn(2, 64)).sum()  # a graph of the old generation stays alive
    once = reduced_by_one_step(wrapped, group)
    place.generation = 2
    assert reduced_by_one_step(wrapped, group) == once
    assert kept.requires_grad


def test_accumulation_does_not_reduce(model: torch.nn.Module) -> None:
    group = Counting()
    wrapped = DataParallel(model, group, Place(), {})
    with wrapped.no_sync():
        assert reduced_by_one_step(wrapped, group) == []
    assert reduced_by_one_step(wrapped, group) != []


def test_it_is_made_anew_now_and_then_so_that_ddps_notes_do_not_pile_up(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_parallel, "RENEW_AFTER", 4)
    place = Place()
    wrapped = DataParallel(model, Counting(), place, {})
    made = []
    for place.step in range(12):
        made.append(id(wrapped.ddp.reducer))
    assert [made[0], made[4], made[8]] == [made[3], made[7], made[11]]
    assert made[3] != made[4]


def test_state_has_the_modules_own_names(model: torch.nn.Module) -> None:
    wrapped = DataParallel(model, Counting(), Place(), {})
    assert list(wrapped.state_dict()) == list(model.state_dict())
    wrapped.load_state_dict(model.state_dict())


@pytest.mark.parametrize("argument", ["process_group", "static_graph", "init_sync"])
def test_what_the_runtime_sets_itself_is_refused(model: torch.nn.Module, argument: str) -> None:
    with pytest.raises(RecoveryError, match=f"run.data_parallel sets {argument} itself"):
        DataParallel(model, Counting(), Place(), {argument: None})
