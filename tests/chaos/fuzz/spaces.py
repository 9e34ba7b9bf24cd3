"""A small suite, the space that it makes, and rounds that nobody ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chaos.fuzz.asked import Asked
from chaos.fuzz.build import space_of
from chaos.fuzz.draw import Drawn
from chaos.fuzz.seen import Round, Seen
from chaos.fuzz.space import Space
from chaos.plan import Facts
from chaos.report.coverage import Cell
from chaos.suite.load import Loaded, load_text
from injectors.catalogue import CATALOGUE

FACTS = Facts("", {}, "package:suites")
SMALL = """
suite: small
seed: 1
defaults:
  target: {kind: recovery, workload: tiny_gpt, world: 4, spares: 1, steps: 30, args: [--steps, "30"]}
  bounds: {detect: 500ms, recover: 1s, run: 60s}
scenarios:
  - name: kill
    faults:
      - {fault: process.kill, where: {rank: random}, when: {step: 6, phase: random}}
  - name: hang
    bounds: {detect: 2s}
    faults:
      - {fault: collective.hang, where: {rank: 0}, when: {step: 6, phase: backward}, for: 8s}
  - name: kill_the_source
    faults:
      - {fault: process.kill, where: {rank: 2}, when: {step: 12, phase: backward}}
      - {fault: process.kill, where: {role: transfer_source}, when: {event: recovery.transfer}}
"""


def loaded(text: str = SMALL) -> Loaded:
    return load_text(text, "small.yaml", CATALOGUE)


def space(text: str = SMALL, asked: Asked | None = None, **more: Any) -> Space:
    return space_of(loaded(text), CATALOGUE, asked or Asked(), **more)


def as_round(drawn: Drawn, seen: Seen, reached: Sequence[Cell] | None = None, **more: Any) -> Round:
    """What the log would say of a drawn plan; by default all of its faults struck and it passed."""
    cells = drawn.cells if reached is None else tuple(reached)
    new = seen.new_of(drawn.job.name, cells)
    return Round(drawn.number, drawn.job.name, drawn.cells, cells, new, **more)


def rounds(
    draw: Callable[[Seen], Drawn], count: int, seen: Seen, reach: Callable[[Cell], bool] = lambda cell: True
) -> list[Drawn]:
    """Draw so many plans, each after what the ones before have shown."""
    found = []
    for _ in range(count):
        drawn = draw(seen)
        seen.add(as_round(drawn, seen, [cell for cell in drawn.cells if reach(cell)]))
        found.append(drawn)
    return found
