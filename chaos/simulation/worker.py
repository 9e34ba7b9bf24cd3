"""One simulated process: what the shell and a training script do around the member's machine.

Its memory is two numbers: the version that is really there, and a taint that is 0 unless something that
should not be in it got in. The machine's own `version` is what the process believes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recovery.core import messages as m
from recovery.core import orders as o
from recovery.core.blame import odd_one_out
from recovery.core.member import Stage

if TYPE_CHECKING:
    from chaos.simulation.group import Group
    from chaos.simulation.world import World
    from recovery.core.member import Member

LONGEST_S = 0.15
AGREEMENT = -10
"""Numbers from here down are those of the members' exchange at the end of a step, one for each step."""
HALF_DONE = -1
"""Taint of a state that is just being changed."""


class Worker:
    """A process from its fork to its reaping."""

    __slots__ = (
        "alive",
        "born",
        "busy_until",
        "chain",
        "changed_at",
        "commits",
        "corrupt_next",
        "counted_generation",
        "cut",
        "deaf",
        "deferred",
        "desync",
        "done",
        "doomed",
        "error",
        "fail_next",
        "fenced",
        "group",
        "handicap_s",
        "held",
        "home",
        "issued",
        "issued_at",
        "last_down",
        "last_up",
        "line",
        "linger_s",
        "machine",
        "net",
        "newest_entered",
        "nth",
        "odd",
        "pace",
        "parked",
        "proc",
        "raise_next",
        "rank",
        "reaped",
        "reported",
        "sealing",
        "shadow",
        "spoilt",
        "step_s",
        "step_started",
        "step_times",
        "stopped",
        "struck",
        "taint",
        "token",
        "version",
        "wait",
        "waits_in",
        "world",
    )

    def __init__(self, world: World, proc: int, rank: int | None, pace: float) -> None:
        self.world = world
        self.proc = proc
        self.rank = rank
        self.pace = pace
        self.home: Any = world
        """Whose word on the page it goes by: the world's, or that of its node's supervisor."""
        self.line: Any = None
        """The session of its node in which it was started; None on the coordinator's own node."""
        self.doomed = False
        """The order to kill it has come to its node."""
        self.machine: Member = world.machines.member(-1 if rank is None else rank, proc)
        self.alive = self.born = False
        self.reaped = False
        self.fenced = False
        self.parked = False
        self.held = 1
        """How many things keep it from running: its fork is not done, it is stopped, it hangs."""
        self.stopped = 0
        self.deferred: list[tuple[Any, Any]] = []
        self.struck: set[str] = set()
        """Faults that can explain why it is late or dead."""
        # memory
        self.version = 0
        self.taint = 0
        self.shadow = (0, 0)
        # progress page
        self.counted_generation = 0
        self.issued = self.done = self.commits = 0
        self.issued_at = self.changed_at = self.step_s = self.busy_until = 0.0
        self.step_times = world.machines.step_times()
        self.chain: list[int] = []
        # where it is
        self.group: Group | None = None
        self.waits_in: int | None = None
        self.token = 0
        """Raised with `wait`, and when the peers' data will not come: a result on its way is void."""
        self.wait = 0
        """Raised when a wait begins or ends: a failure on its way to an older one is void."""
        self.cut = 0
        """Connections of generations up to this one are shut."""
        self.error: tuple[str, str, int | None] | None = None
        self.nth = 0
        self.odd = False
        self.sealing = False
        self.spoilt = False
        self.step_started = 0.0
        # for the checks
        self.newest_entered = 0
        self.reported = ""
        # what faults will do to it next
        self.desync: str | None = None
        self.raise_next = self.fail_next = self.corrupt_next = self.deaf = False
        self.linger_s = 0.0
        self.handicap_s = 0.0
        # channel
        self.last_up = self.last_down = 0.0
        self.net: list[tuple[str, str, float]] = []

    # ------------------------------------------------------------------ memory

    def digest(self) -> str:
        return f"v{self.version}" if not self.taint else f"v{self.version}x{self.taint}"

    # ------------------------------------------------------------------ life

    def booted(self, _: Any = None) -> None:
        """The fork is done and the script runs up to `recovery.join()`."""
        if self.rank is None or self.machine.rank < 0:
            self.parked = True
        else:
            self.later(self.rest, 0.02, 0.08, False)

    def ranked(self, rank: int) -> None:
        """The word that a spare waits for."""
        if self.machine.rank >= 0:
            return
        self.machine = self.world.machines.member(rank, self.proc)
        if self.parked:
            self.parked = False
            self.later(self.rest, 0.01, 0.05, False)

    def later(self, handler: Any, low_s: float, high_s: float, arg: Any = None) -> None:
        world = self.world
        # Slow, but never so slow that a limit may take it for lost.
        wait_s = world.delay(low_s, high_s) * self.pace
        world.push(world.now + (wait_s if wait_s < LONGEST_S else LONGEST_S), self, handler, arg)

    def rest(self, finished: bool) -> None:
        self.world.checks.reports(self)
        self.reported = self.digest()
        self.carry_out(self.machine.handle(o.AtRest(self.reported, finished), self.world.now))

    def heard(self, message: m.Open | m.Leave) -> None:
        self.carry_out(self.machine.handle(message, self.world.now))

    def end(self, how: tuple[int | None, int | None, str | None]) -> None:
        self.world.die(self, *how)

    # ------------------------------------------------------------------ carrying out the protocol

    def carry_out(self, actions: list[o.Action]) -> None:
        world = self.world
        for action in actions:
            kind = type(action)
            if kind is m.Formed:
                world.checks.formed(self)
                world.send_up(self, action)
                world.reached(self, "generation.formed")
                self.later(self.begin, 0.002, 0.01)
            elif kind in _REPORTS:
                world.send_up(self, action)
            elif isinstance(action, o.Commit):
                self._committed(action)
            elif isinstance(action, o.Enter):
                self._enter(action.generation)
            elif isinstance(action, o.Connect):
                self._connect(action.generation)
            elif isinstance(action, (o.Give, o.Take)):
                self._transfer(action)
            elif isinstance(action, o.Drop):
                self.counted_generation, self.waits_in = 0, None
                if self.group is not None:
                    self.group.leave(self)
                self.later(self.rest, 0.001, 0.01, False)
            elif isinstance(action, o.Restore):
                self.version, self.taint = self.shadow
                world.reached(self, "step.rollback")
            elif isinstance(action, o.Exit):
                self.later(self.end, 0.001, 0.02, (0, None, None))

    def _enter(self, generation: int) -> None:
        world = self.world
        world.checks.entered(self, generation)
        if self.group is not None:
            self.group.leave(self)
        self.counted_generation, self.error, self.waits_in = generation, None, None
        self.issued = self.done = 0
        self.chain = []
        self.odd = True  # the first step of a generation waits for everyone before it commits
        self.busy_until = 0.0
        self.changed_at = world.now
        self.group = world.groups.get(generation)
        world.reached(self, "member.enter")

    def _connect(self, generation: int) -> None:
        self._next_wait()
        if self.home.open_generation != generation or self.group is None:
            self.later(self.failed, 0.0003, 0.002, (self.wait, "this rendezvous is over", None))
            return
        self.group.connect(self)

    def _transfer(self, action: o.Give | o.Take) -> None:
        world, group = self.world, self.group
        assert group is not None
        opening = action.opening
        self._next_wait()
        if isinstance(action, o.Take):
            self.version, self.taint = 0, HALF_DONE
        else:
            world.checks.gives(self, opening)
            assert self.rank is not None
            group.given[self.rank] = (self.version, self.taint)
        world.reached(self, "recovery.transfer")
        if self.cut >= group.generation:
            self.failed((self.wait, RELEASED, None))
            return
        parties = sorted({*opening.holders, *opening.receivers})
        group.transfer(self, [group.members[rank] for rank in parties])

    # ------------------------------------------------------------------ what ends a wait

    def completed(self, token: int) -> None:
        if token != self.token:
            return
        self._next_wait()
        number, self.waits_in = self.waits_in, None
        world, now = self.world, self.world.now
        self.changed_at = now
        if number is None:
            return
        if number >= 0:
            self.done += 1
            group = self.group
            assert group is not None
            self.spoilt = self.spoilt or number in group.wrong
            self._between_collectives()
            return
        machine = self.machine
        if number <= AGREEMENT:
            self.sealed()
        elif number == -2:
            self.carry_out(machine.handle(o.Connected(machine.generation), now))
        elif machine.stage is Stage.GIVING:
            world.reached(self, "state.send")
            self.carry_out(machine.handle(o.Given(machine.generation, 1), now))
        else:
            self._arrived()

    def _arrived(self) -> None:
        """All parts of the state are here."""
        machine, group = self.machine, self.group
        opening = machine.opening
        assert group is not None
        assert opening is not None
        given = [group.given[rank] for rank in opening.holders]
        self.version, self.taint = given[0]
        if any(part != given[0] for part in given):
            self.taint = self.world.new_taint()
        if self.corrupt_next:
            self.corrupt_next = False
            self.taint = self.world.new_taint()
        self.world.reached(self, "state.receive")
        self.carry_out(machine.handle(o.Taken(machine.generation, self.digest(), 1), self.world.now))

    def failed(self, what: tuple[int, str, int | None]) -> None:
        """The wait with this token has ended badly."""
        wait, detail, suspect = what
        if wait == self.wait:
            self.broken("collective_error", detail, suspect)

    def broken(self, kind: str, detail: str, suspect: int | None = None) -> None:
        self._next_wait()
        self.waits_in, self.sealing, self.error = None, False, (kind, detail, suspect)
        machine = self.machine
        self.carry_out(machine.handle(o.Broken(machine.generation, kind, detail, suspect), self.world.now))

    # ------------------------------------------------------------------ training

    def begin(self, _: Any = None) -> None:
        machine, world = self.machine, self.world
        if machine.stage is not Stage.IDLE:
            return
        version = machine.version
        assert version is not None
        if version >= world.plan.steps:
            self.rest(True)
            return
        if machine.is_over(self.home.open_generation, self.error is not None):
            self.broken("collective_error", "the generation has ended")
            return
        machine.handle(o.Begun(version), world.now)
        self.shadow = (self.version, self.taint)
        self.nth, self.spoilt = 0, False
        self.step_started = self.changed_at = world.now
        world.reached(self, "step.begin", version)
        cold = not self.commits
        self.later(self.issue, 0.001, 0.05 if cold else 0.02)

    def issue(self, _: Any = None) -> None:
        """Enter the next collective of the step."""
        machine, world = self.machine, self.world
        if machine.stage is not Stage.STEPPING:
            return
        if self.raise_next:
            self.raise_next = False
            world.die(self, 1, None, "ValueError: bad batch")
            return
        if self.fail_next:
            self.fail_next = False
            self.broken("collective_error", "injected")
            return
        if self.home.open_generation != machine.generation:
            self.broken("collective_error", "the generation has ended")
            return
        self.taint = HALF_DONE
        what = self.nth
        if self.desync is not None:
            self.odd = True
            desync, self.desync = self.desync, None
            if desync == "collective.skip":
                self.nth += 1
                if self.nth >= world.plan.collectives:
                    self._seal()
                    return
                what = self.nth
            else:
                self.nth -= 1
                what = 7
        chain = self.chain
        last = chain[-1] if chain else 0
        chain.append((last * 1000003 ^ (machine.step * 8 + what + 1)) & 0xFFFFFFFFFF)
        self.issued = number = len(chain)
        self.issued_at = self.changed_at = world.now
        world.reached(self, "backward", machine.step)
        group = self.group
        assert group is not None
        self._next_wait()
        if self.cut >= group.generation:
            self.failed((self.wait, RELEASED, None))
            return
        group.collective(self, number, self.shadow[0], chain[-1])

    def _between_collectives(self) -> None:
        self.nth += 1
        if self.nth < self.world.plan.collectives:
            self.issue()
        else:
            self._seal()

    def _seal(self) -> None:
        """The optimizer has used the gradients; the state is whole again."""
        world, machine, group = self.world, self.machine, self.group
        assert group is not None
        version, taint = self.shadow
        self.version = version + 1
        self.taint = world.new_taint() if self.spoilt and not taint else taint
        world.reached(self, "step.seal", machine.step)
        if self.error is not None:
            self.broken(*self.error)
            return
        if group.mismatch and not world.agrees_in_band and self._disagrees():
            return
        self.sealing = True
        self._next_wait()
        if not world.agrees_in_band:
            group.seal(self, machine.step, wait=self.odd)
        elif self.cut >= group.generation:
            self.failed((self.wait, RELEASED, None))
        else:
            group.agree(self, machine.step)

    def sealed_by_all(self, wait: int) -> None:
        if wait == self.wait:
            self.sealed()

    def _next_wait(self) -> None:
        self.wait += 1
        self.token += 1

    def sealed(self) -> None:
        group = self.group
        assert group is not None
        self.sealing = False
        if group.mismatch and self._disagrees():
            return
        self.odd = False
        machine = self.machine
        if machine.stage is not Stage.STEPPING:
            return
        if self.home.leased and self.world.machines.check_lease and self.home.lease_is_over():
            self.broken("lease", "the lease of its node is over")
            return
        self.carry_out(machine.handle(o.Done(machine.step), self.world.now))

    def _disagrees(self) -> bool:
        """Compare sequences with the peers, as far as both have come."""
        group, rank, check = self.group, self.rank, self.world.machines.check_sequence
        assert group is not None
        assert rank is not None
        if not check:
            return False
        for other in group.members:
            common = min(self.issued, other.issued)
            if other is self or other.group is not group or not common:
                continue
            if other.chain[common - 1] != self.chain[common - 1]:
                chains = {
                    one.rank: one.chain[common - 1] if one.issued >= common and one.group is group else None
                    for one in group.members
                }
                suspect = odd_one_out(chains, other.rank)  # type: ignore[arg-type]
                self.broken("desync", "another sequence of collectives", suspect)
                return True
        return False

    def _committed(self, action: o.Commit) -> None:
        world = self.world
        self.commits += 1
        self.step_s = self.step_times.add(world.now - self.step_started)
        self.changed_at = world.now
        world.checks.committed(self, action)
        world.reached(self, "step.commit", action.version - 1)
        self.later(self.begin, 0.0002, 0.002)


_REPORTS = frozenset({m.Ready, m.Failed, m.Committed})
RELEASED = "the connections were shut"
