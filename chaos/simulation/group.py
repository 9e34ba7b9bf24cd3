"""One generation's connections, as gloo behaves (measured; see the design notes on collectives).

- A collective is entered by number. It completes when all members have entered it, at each member at its
  own moment; a member that dies in between leaves some with the result and some without.
- After a death or a departure only the ring's neighbours see a reset; the others wait until released.
- Nobody compares what is put in: other contents under the same number give wrong sums without an error.
- Whoever waits for a connection that does not come gives up after a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.simulation.worker import Worker
    from chaos.simulation.world import World

CONNECT, TRANSFER, AGREEMENT = -2, -1, -10
"""Numbers of the two operations that come before the first collective."""
GIVE_UP_S = 0.75
LONGEST_S = 0.06
"""From the last arrival in a collective to its end at a slow member."""
RESET = "Connection reset by peer"


class Group:
    """The members of one generation and what they have entered."""

    __slots__ = (
        "arrived",
        "contents",
        "generation",
        "given",
        "given_up",
        "gone",
        "members",
        "mismatch",
        "parties",
        "sealed",
        "size",
        "waiting_to_seal",
        "world",
        "wrong",
    )

    def __init__(self, world: World, generation: int, members: list[Worker]) -> None:
        self.world = world
        self.generation = generation
        self.members = members
        self.size = len(members)
        self.arrived: dict[int, int] = {}
        self.given_up = False
        self.parties: list[Worker] = members
        self.given: dict[int, tuple[int, int]] = {}
        """What each holder sends: version and taint, by rank."""
        self.contents: dict[int, tuple[int, int]] = {}
        self.wrong: set[int] = set()
        """Collectives whose sums are not what anyone meant."""
        self.mismatch = False
        """Some members entered different collectives under one number."""
        self.gone: set[int] = set()
        self.sealed: dict[int, int] = {}
        self.waiting_to_seal: list[tuple[Worker, int]] = []

    # ------------------------------------------------------------------ entering operations

    def connect(self, worker: Worker) -> None:
        world = self.world
        if not self.arrived.get(CONNECT):
            world.push(world.now + GIVE_UP_S, None, self._give_up, CONNECT)
        self._enter(worker, CONNECT, self.size)
        if self.given_up:
            self._fail(worker, "a peer did not come", GIVE_UP_S)

    def transfer(self, worker: Worker, parties: list[Worker]) -> None:
        self.parties = parties
        self._enter(worker, TRANSFER, len(parties))

    def collective(self, worker: Worker, number: int, version: int, chain: int) -> None:
        content = (version, chain)
        first = self.contents.setdefault(number, content)
        if first != content:
            self.wrong.add(number)
            self.mismatch = self.mismatch or first[1] != chain
        self._enter(worker, number, self.size)

    def _enter(self, worker: Worker, number: int, needed: int) -> None:
        arrived = self.arrived.get(number, 0) + 1
        self.arrived[number] = arrived
        worker.waits_in = number
        gone = self.gone
        if not gone:
            if arrived == needed and not (self.world.partition and self.world.apart(self, number)):
                self._complete(number)
        elif (number == CONNECT or self._touches(worker, gone)) and self.world.hears_of(worker, self):
            self._reset(worker)

    def _touches(self, worker: Worker, gone: set[int]) -> bool:
        rank, size = worker.rank, self.size
        assert rank is not None
        return (rank + 1) % size in gone or (rank - 1) % size in gone

    def _complete(self, number: int) -> None:
        world = self.world
        now = world.now
        for worker in self.members if number != TRANSFER else self.parties:
            wait_s = world.delay(0.0008, 0.005) * worker.pace
            at = now + (wait_s if wait_s < LONGEST_S else LONGEST_S)
            world.push(at, worker, worker.completed, worker.token)

    def unblocked(self) -> None:
        """A partition has ended: what everyone has entered goes on."""
        if self.gone:
            return
        for number, arrived in self.arrived.items():
            if self.world.partition and self.world.apart(self, number):
                continue
            needed = len(self.parties) if number == TRANSFER else self.size
            parties = self.parties if number == TRANSFER else self.members
            if arrived == needed and all(worker.waits_in == number for worker in parties):
                self._complete(number)

    # ------------------------------------------------------------------ breaking

    def leave(self, worker: Worker) -> None:
        """It has died or closed its connections: what is in flight is lost, its neighbours notice."""
        rank = worker.rank
        if rank is None or rank in self.gone or self.members[rank] is not worker:
            return
        size = self.size
        if not self.gone:
            for other in self.members:
                # Data that has not arrived yet does not arrive.
                if other.waits_in is not None and other.group is self:
                    other.token += 1
        self.gone.add(rank)
        for neighbour in {(rank + 1) % size, (rank - 1) % size} - {rank}:
            if self.world.hears_of(self.members[neighbour], self, worker):
                self._reset(self.members[neighbour])

    def _reset(self, worker: Worker) -> None:
        if worker.alive and worker.waits_in is not None and worker.group is self:
            self._fail(worker, RESET)

    def _fail(self, worker: Worker, why: str, after_s: float = 0.0) -> None:
        world = self.world
        at = world.now + after_s + world.delay(0.0002, 0.004)
        world.push(at, worker, worker.failed, (worker.wait, why, None))

    def release(self, worker: Worker) -> None:
        """Its connections are shut from outside."""
        if worker.waits_in is None or worker.group is not self:
            return
        if worker.waits_in == CONNECT and self.world.delay(0.0, 1.0) > 0.5:
            return  # no socket to shut yet: it gives up by itself
        self._fail(worker, "released")

    def _give_up(self, number: int) -> None:
        self.given_up = True
        for worker in self.members:
            if worker.alive and worker.waits_in == number and worker.group is self:
                self._fail(worker, "a peer did not come")

    # ------------------------------------------------------------------ agreement on the sequence

    def agree(self, worker: Worker, step: int) -> None:
        """Between nodes the members exchange what they ran in a collective of its own."""
        self._enter(worker, AGREEMENT - step, self.size)

    def seal(self, worker: Worker, step: int, *, wait: bool) -> None:
        """Its step is whole; it goes on at once, or when all others have come as far."""
        self.sealed[step] = sealed = self.sealed.get(step, 0) + 1
        world = self.world
        if wait and sealed < self.size:
            if worker.home.open_generation != self.generation:
                self._fail(worker, "the generation has ended")
            else:
                self.waiting_to_seal.append((worker, worker.wait))
            return
        if wait:
            worker.sealed()
        if sealed == self.size and self.waiting_to_seal:
            waiting, self.waiting_to_seal = self.waiting_to_seal, []
            for other, since in waiting:
                if other.alive and other.wait == since:
                    world.push(world.now + world.delay(0.0, 0.002), other, other.sealed_by_all, since)
        if not wait:
            worker.sealed()

    def over(self, home: object) -> None:
        """The generation is not open any more: whoever waits to seal sees it, as soon as its page says so."""
        waiting, self.waiting_to_seal = self.waiting_to_seal, []
        for worker, wait in waiting:
            if worker.home is not home:
                self.waiting_to_seal.append((worker, wait))
            elif worker.alive and worker.wait == wait:
                self._fail(worker, "the generation has ended")
