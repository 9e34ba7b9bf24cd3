"""Randomness as a function of (seed, rank, step)."""

from __future__ import annotations

import random

import torch

from recovery.seeding import derive, digest, seed_everything


def test_every_input_changes_the_stream() -> None:
    values = {derive(seed, rank, step) for seed in range(3) for rank in range(4) for step in range(5)}
    assert len(values) == 60
    assert all(0 <= value < 1 << 63 for value in values)


def test_the_same_place_draws_the_same_numbers() -> None:
    seed_everything(1, 2, 3)
    first = (torch.rand(2).tolist(), random.random(), digest())
    torch.rand(5)
    random.random()
    seed_everything(1, 2, 3)
    assert (torch.rand(2).tolist(), random.random(), digest()) == first


def test_the_digest_sees_a_single_draw() -> None:
    seed_everything(1, 2, 3)
    before = digest()
    random.random()
    assert digest() != before
