"""Randomness as a function of (seed, logical rank, step), so that no generator state has to survive."""

from __future__ import annotations

import hashlib
import random
import sys


def derive(seed: int, rank: int, step: int) -> int:
    """63 bits for one rank at one step. Distinct inputs give unrelated streams."""
    name = f"recovery:{seed}:{rank}:{step}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big") >> 1


def seed_everything(seed: int, rank: int, step: int) -> int:
    """Seed torch (all devices), Python and, if it is imported, NumPy. Returns the derived seed."""
    import torch

    value = derive(seed, rank, step)
    if torch.accelerator.is_available():
        torch.manual_seed(value)
    else:
        # torch.manual_seed also queues a call for each kind of accelerator that might come up later, with
        # a formatted stack each: 1 ms a step.
        torch.default_generator.manual_seed(value)
    random.seed(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(value % (1 << 32))
    return value


def digest() -> str:
    """A short digest of the generators' present states: equal states, equal digests."""
    import torch

    state = hashlib.blake2b(bytes(torch.get_rng_state().numpy()), digest_size=8)
    state.update(repr(random.getstate()).encode())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state.update(numpy.random.get_state()[1].tobytes())
    return state.hexdigest()
