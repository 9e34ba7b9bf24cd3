"""One round's plan: a pure function of the seed, the round's number and what the rounds before have shown.

Rules kept here:

- A round is steered to a cell that no round has reached, the least tried first; one that was tried in vain
  waits until nothing else is left.
- Where it can strike only in a recovery, a fault that leads to one stands before it, itself steered.
- Now and then a plan that reached something new is taken up again, with its faults elsewhere and at other
  steps: it knows a way that others do not.
- A job must be able to survive what is drawn: losses lie steps apart, one fault at most strikes in a
  recovery, and never the last one that holds the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.fuzz.fits import needs_loss, open_moments
from chaos.fuzz.seen import Seen
from chaos.fuzz.space import PLACES, RANK_0, Aim, Job, Moment, Space
from chaos.plan import Draws
from chaos.report.coverage import Cell

APART = 3
"""Steps between two faults, at least: a job can lose one rank at a time, and has to have it back."""
FROM_CORPUS = 4
"""One of so many rounds takes up a plan of the corpus."""


@dataclass(frozen=True)
class Drawn:
    """What a round does: entries of a suite with nothing left to draw, and the cell of each."""

    number: int
    job: Job
    cells: tuple[Cell, ...]
    entries: tuple[dict[str, Any], ...]


def draw(space: Space, seen: Seen, seed: int) -> Drawn:
    """The plan of the next round."""
    number = seen.rounds + 1
    draws = Draws(seed, "fuzz", number)
    lead = steered(space.aims, seen, draws, "lead")
    return _Drawing(space.job(lead.job), seen, draws).drawn(number, lead.cell)


def steered(aims: Iterable[Aim], seen: Seen, draws: Draws, what: object) -> Aim:
    """The cell that is most worth a try; equal ones are drawn from."""
    ranked: dict[tuple[int, int], list[Aim]] = {}
    for aim in aims:
        if not seen.reached[aim]:
            rank = (2, seen.tries[aim]) if seen.in_vain(aim) else (0, seen.tries[aim])
        else:
            rank = (1, seen.reached[aim])
        ranked.setdefault(rank, []).append(aim)
    return draws.choice(ranked[min(ranked)], what)  # type: ignore[no-any-return]  # one of the aims


@dataclass
class _Drawing:
    """One plan under way."""

    job: Job
    seen: Seen
    draws: Draws

    def drawn(self, number: int, lead: Cell) -> Drawn:
        moment = self._moment(lead, 0)
        chain: list[tuple[Cell, Moment]] = [(lead, moment)]
        if needs_loss(lead.role, moment):
            before = self._before(lead)
            chain.insert(0, (before, self._moment(before, "before")))
        if self._may_have_company(chain):
            chain += self._company(lead, len(chain))
        entries = self._placed(chain)
        return Drawn(number, self.job, tuple(cell for cell, _ in chain[: len(entries)]), tuple(entries))

    def _moment(self, cell: Cell, what: object) -> Moment:
        return self.draws.choice(open_moments(self.job, cell), "moment", what)  # type: ignore[no-any-return]

    def _before(self, lead: Cell) -> Cell:
        """The loss that leads to the recovery; on another rank than the one that is struck in it."""
        losses = [cell for cell in self.job.losses() if not (lead.role == RANK_0 == cell.role)]
        if self.job.world < 3:
            losses = [cell for cell in losses if cell.role != lead.role] or losses
        return self._steered(losses or list(self.job.losses()), "before")

    def _steered(self, cells: Sequence[Cell], what: object) -> Cell:
        return steered([Aim(self.job.name, cell) for cell in cells], self.seen, self.draws, what).cell

    # -- more than one

    def _may_have_company(self, chain: Sequence[tuple[Cell, Moment]]) -> bool:
        return all(
            not self.job.kinds[cell.fault].alone and (moment.stepped or needs_loss(cell.role, moment))
            for cell, moment in chain
        )

    def _company(self, lead: Cell, count: int) -> list[tuple[Cell, Moment]]:
        """Further faults, each in a step of its own: those of a plan of the corpus, or steered ones."""
        fitting = [cell for cell in self.job.cells if self._stepped(cell)]
        more = self._how_many(self.job.most - count)
        corpus = [one for one in self.seen.corpus if one.job == self.job.name]
        if corpus and self.draws.number(1, FROM_CORPUS, "corpus") == 1:
            kept = self.draws.choice(corpus, "taken up").cells
            cells = [cell for cell in kept if cell in fitting and cell != lead][: self.job.most - count]
        else:
            cells = [self._steered(fitting, ["company", n]) for n in range(more if fitting else 0)]
        return [(cell, self._stepped(cell)[0]) for cell in cells]

    def _how_many(self, most: int) -> int:
        """Half the plans have no more faults than they must: what they show is plain to see."""
        return self.draws.number(0, most, "more") if most > 0 and self.draws.number(0, 1, "pair") else 0

    def _stepped(self, cell: Cell) -> list[Moment]:
        if self.job.kinds[cell.fault].alone:
            return []
        ways = self.job.moments[cell.phase]
        return [moment for moment in ways if moment.stepped and not needs_loss(cell.role, moment)]

    # -- where and when

    def _placed(self, chain: Sequence[tuple[Cell, Moment]]) -> list[dict[str, Any]]:
        """The entries, in order; the last ones are dropped where the job has no step left for them."""
        entries: list[dict[str, Any]] = []
        last: int | None = None
        for nth, (cell, moment) in enumerate(chain):
            fault_id = f"f{nth + 1}"
            when: dict[str, Any] = dict(moment.when)
            if "after_s" in when:
                low, high = when["after_s"]
                # In milliseconds: a plan is read by people.
                when["after_s"] = (
                    self.draws.number(round(low * 1000), round(high * 1000), "after_s", nth) / 1000
                )
            if moment.follows:
                when["after_fault"] = entries[0]["id"]
            if moment.stepped:
                step = self._step(cell, last, self._room(chain[nth + 1 :]), nth)
                if step is None:
                    break
                when["step"] = last = step
            entry = {
                "fault": cell.fault,
                "id": fault_id,
                "where": self._where(cell, entries, moment, nth),
                "when": when,
            }
            entries.append({**entry, **self._recipe(cell, nth)})
        return entries

    def _room(self, rest: Sequence[tuple[Cell, Moment]]) -> int:
        """Steps that the faults after this one need."""
        return APART * sum(moment.stepped for _, moment in rest)

    def _step(self, cell: Cell, last: int | None, room: int, nth: int) -> int | None:
        low, high = self.job.node_steps if self.job.kinds[cell.fault].of_nodes else self.job.steps
        first = low if last is None else last + APART
        if first > high:
            return None
        return self.draws.number(first, max(first, high - room), "step", nth)

    def _where(
        self, cell: Cell, entries: Sequence[dict[str, Any]], moment: Moment, nth: int
    ) -> dict[str, Any]:
        counts = {"rank": self.job.world, "node": self.job.nodes}
        for key, first, another in PLACES:
            if cell.role == first:
                return {key: 0}
            if cell.role == another:
                others = list(range(1, counts[key]))
                if needs_loss(cell.role, moment) and entries:
                    # The rank that was just lost is not there to be struck.
                    gone = entries[0]["where"].get(key)
                    others = [one for one in others if one != gone] or others
                return {key: self.draws.choice(others, key, nth)}
        return {"role": cell.role}

    def _recipe(self, cell: Cell, nth: int) -> dict[str, Any]:
        kind = self.job.kinds[cell.fault]
        recipe = dict(self.draws.choice(kind.recipes, "recipe", nth))
        given = dict(recipe.get("with", {}))
        for name, low, high in kind.drawn:
            if name not in given:
                given[name] = round(low + (high - low) * self.draws.number(0, 1000, name, nth) / 1000, 6)
        return {**recipe, **({"with": given} if given else {})}
