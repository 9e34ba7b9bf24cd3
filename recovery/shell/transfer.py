"""Bringing those who are behind to the agreed state: striped over all holders, verified on arrival.

The first holder sends each receiver a manifest (structure, exact Python values, digest); then every holder
sends its own stripe of the bytes. A receiver believes nothing until the digest of what it now holds is the
manifest's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from recovery.shell.rescue import Waiting
from recovery.state import Chunk, StateTree, stripes

BLOCK_BYTES = 8 << 20
_TAG_LENGTH, _TAG_MANIFEST, _TAG_BLOCKS = 1, 2, 1000


@dataclass(frozen=True)
class Plan:
    """Who gives what to whom, as the coordinator decided it."""

    rank: int
    holders: tuple[int, ...]
    receivers: tuple[int, ...]
    digest: str | None


@dataclass(frozen=True)
class Received:
    bytes: int
    digest: str
    extra: dict[str, Any]


def send(
    group: Any,
    tree: StateTree,
    manifest: dict[str, Any],
    plan: Plan,
    extra: dict[str, Any],
    device: torch.device,
    waiting: Waiting,
) -> int:
    """A holder's part; returns the bytes sent. `extra` travels with the manifest (JSON-able).

    Raises:
        RuntimeError: a peer is gone.
    """
    mine = stripes(manifest, len(plan.holders))[plan.holders.index(plan.rank)]
    works: list[Any] = []
    kept: list[torch.Tensor] = []
    if plan.rank == plan.holders[0]:
        payload = json.dumps({"manifest": manifest, "extra": extra}).encode()
        body = torch.frombuffer(bytearray(payload), dtype=torch.uint8).to(device)
        length = torch.tensor([len(payload)], dtype=torch.int64, device=device)
        kept += [body, length]
        for receiver in plan.receivers:
            works.append(group.send([length], receiver, _TAG_LENGTH))
            works.append(group.send([body], receiver, _TAG_MANIFEST))
    sent = 0
    for number, block in enumerate(_blocks(mine)):
        data = torch.cat([tree.read(chunk).to(device) for chunk in block])
        kept.append(data)
        for receiver in plan.receivers:
            works.append(group.send([data], receiver, _TAG_BLOCKS + number))
            sent += data.numel()
        if len(works) > 64:
            _wait_all(works, waiting)
            kept.clear()
    _wait_all(works, waiting)
    return sent


def receive(group: Any, tree: StateTree, plan: Plan, device: torch.device, waiting: Waiting) -> Received:
    """A receiver's part: adopt the agreed state.

    Raises:
        RuntimeError: a peer is gone.
        StateError: the model differs from the holders', or what arrived is not what was sent.
    """
    length = torch.zeros(1, dtype=torch.int64, device=device)
    waiting.wait_message(group.recv([length], plan.holders[0], _TAG_LENGTH))
    body = torch.empty(int(length.item()), dtype=torch.uint8, device=device)
    waiting.wait_message(group.recv([body], plan.holders[0], _TAG_MANIFEST))
    message = json.loads(bytes(body.cpu().numpy()))
    manifest = message["manifest"]
    tree.prepare(manifest)
    total = 0
    streams = [
        (holder, enumerate(_blocks(stripe)))
        for holder, stripe in zip(plan.holders, stripes(manifest, len(plan.holders)), strict=True)
    ]
    while streams:
        pending = []
        for holder, blocks in list(streams):
            item = next(blocks, None)
            if item is None:
                streams.remove((holder, blocks))
                continue
            number, block = item
            data = torch.empty(sum(_size(chunk) for chunk in block), dtype=torch.uint8, device=device)
            pending.append((group.recv([data], holder, _TAG_BLOCKS + number), block, data))
        for work, block, data in pending:
            waiting.wait_message(work)
            start = 0
            for chunk in block:
                tree.write(chunk, data[start : start + _size(chunk)])
                start += _size(chunk)
            total += data.numel()
    tree.flush()
    digest = tree.adopt(manifest)
    return Received(total, digest.total, message["extra"])


def _blocks(chunks: list[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks packed into messages of about BLOCK_BYTES; a big tensor is cut."""
    block: list[Chunk] = []
    size = 0
    for chunk in chunks:
        start = chunk.start
        while start < chunk.stop:
            stop = min(chunk.stop, start + BLOCK_BYTES - size)
            block.append(Chunk(chunk.tensor, start, stop))
            size += stop - start
            start = stop
            if size >= BLOCK_BYTES:
                yield block
                block, size = [], 0
    if block:
        yield block


def _size(chunk: Chunk) -> int:
    return chunk.stop - chunk.start


def _wait_all(works: list[Any], waiting: Waiting) -> None:
    for work in works:
        waiting.wait_message(work)
    works.clear()
