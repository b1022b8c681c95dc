"""Members of a stream group: they join, send heartbeats, claim partitions, commit, and give partitions up.

A member knows a generation and what it owned in it. It reports both with every heartbeat, stops using a partition
before it says so, and commits under the epoch it was given. While faults last it may crash, pause for longer than a
session, or leave; a member that was paused goes on with what it was about to do, as if nothing had happened.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.plans.stream import METADATA, PARTITION_COUNT, READERS, TOPIC, group_of
from flotilla.sim.stream.host import StreamApplication
from flotilla.sim.trace import EVERYONE
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.errors import StaleGenerationError
from flotilla.types.ids import Offset
from flotilla.types.operations import CommitOffset, OffsetCommitted
from flotilla.types.operations.stream import ClaimPartition, GroupAssignment, Heartbeat, JoinGroup, LeaveGroup

_RETRY_US: Final = 150 * MS
_LATE_CHANCE: Final = 0.1
#: Of a partition that a member is given.
_DECLINE_CHANCE: Final = 0.1
_LATE_US: Final = 3 * SECOND


class StreamMember:
    """One member at a time; after a crash it is another one."""

    def __init__(self, number: int, app: StreamApplication, timeout_us: int) -> None:
        self._app = app
        self._number = number
        self._random: Random = app.world.stream(f"member {number}")
        self._coordinator = Caller(app.wire, METADATA, self._random, timeout_us)
        self._leaders = [
            Caller(app.wire, group_of(partition), self._random, timeout_us) for partition in range(PARTITION_COUNT)
        ]
        #: Rises with every crash: what was planned before is void.
        self._life = 0
        self._is_up = False
        self._is_calm = False
        self._paused_until_us = 0
        self._generation = 0
        #: Partition to epoch: what it uses and reports as used.
        self._owned: dict[int, int] = {}
        #: Its position in the partitions that it has claimed.
        self._positions: dict[int, Offset] = {}
        self.committed_count = 0

    @property
    def name(self) -> str:
        return f"m{self._number}.{self._life}"

    def start(self) -> None:
        self._life += 1
        self._is_up = True
        self._generation = 0
        self._later(int(self._random.random() * SECOND), self._join)

    def calm(self) -> None:
        """From now on it behaves."""
        self._is_calm = True
        self._paused_until_us = 0
        if not self._is_up:
            self.start()

    def leave(self) -> None:
        """Gives everything up and leaves in order."""
        if self._is_up:
            self._stop()
            self._coordinator.ask(LeaveGroup(TOPIC, READERS, self.name), _ignore)

    def _stop(self) -> None:
        self._is_up = False
        for partition in list(self._owned):
            self._drop(partition)

    def _later(self, delay_us: int, action: Callable[..., None], *arguments: object) -> None:
        self._app.world.after(delay_us, self._fire, self._life, action, arguments)

    def _fire(self, life: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        """Unless it has crashed since; and not before it goes on."""
        if life != self._life or not self._is_up:
            return
        if self._app.world.now_us < self._paused_until_us:
            self._app.world.at(self._paused_until_us, self._fire, life, action, arguments)
        else:
            action(*arguments)

    def _ask(self, caller: Caller, request: object, action: Callable[..., None], *arguments: object) -> None:
        life = self._life
        caller.ask(request, lambda outcome: self._fire(life, action, (*arguments, outcome)))  # type: ignore[arg-type]

    # The group.

    def _join(self) -> None:
        plan = self._app.plan
        request = JoinGroup(TOPIC, READERS, self.name, "simulated", plan.strategy, plan.session_ms)
        self._ask(self._coordinator, request, self._joined)

    def _joined(self, outcome: Outcome) -> None:
        if isinstance(outcome, GroupAssignment):
            self._app.sometimes.seen("member joined")
            self._take(outcome)
            self._later(self._pause_us(self._app.plan.heartbeat_ms), self._heartbeat)
        else:
            self._later(_RETRY_US, self._join)

    def _heartbeat(self) -> None:
        trouble = self._app.plan.trouble_one_in
        if trouble and not self._is_calm and self._random.randrange(trouble) == 0:
            self._get_into_trouble()
        request = Heartbeat(TOPIC, READERS, self.name, self._generation, list(self._owned))
        self._later(1, self._ask, self._coordinator, request, self._heard)
        if not self._is_calm and self._random.random() < _LATE_CHANCE:
            # A copy of it arrives much later, like one that was abandoned and sent again.
            self._app.sometimes.seen("late heartbeat")
            self._app.world.after(int(self._random.random() * _LATE_US), self._coordinator.ask, request, _ignore)

    def _heard(self, outcome: Outcome) -> None:
        if isinstance(outcome, StaleGenerationError):
            self._app.sometimes.seen("member found itself out")
            for partition in list(self._owned):
                self._drop(partition)
            self._generation = 0
            self._join()
            return
        if isinstance(outcome, GroupAssignment):
            self._take(outcome)
        self._later(self._pause_us(self._app.plan.heartbeat_ms), self._heartbeat)

    def _take(self, assignment: GroupAssignment) -> None:
        if assignment.generation < self._generation:
            return
        self._generation = assignment.generation
        given = dict(assignment.partitions)
        for partition, epoch in list(self._owned.items()):
            if partition not in given:
                delay_us = 0 if self._is_calm else self._pause_us(self._app.plan.revoke_ms)
                self._later(delay_us, self._give_up, partition, epoch)
            elif given[partition] != epoch:
                self._drop(partition)
        for partition, epoch in given.items():
            if partition not in self._owned:
                if not self._is_calm and self._random.random() < _DECLINE_CHANCE:
                    # As when its claim had failed: the next heartbeat says that it does not use it.
                    self._app.sometimes.seen("partition declined")
                    continue
                self._owned[partition] = epoch
                self._app.ownership.used[partition, self.name] = epoch
                self._claim(partition, epoch)

    def _give_up(self, partition: int, epoch: int) -> None:
        if self._owned.get(partition) == epoch:
            self._drop(partition)

    def _drop(self, partition: int) -> None:
        del self._owned[partition]
        self._positions.pop(partition, None)
        self._app.ownership.used.pop((partition, self.name), None)

    def _pause_us(self, mean_ms: int) -> int:
        return int((0.5 + self._random.random()) * mean_ms * MS)

    # Partitions.

    def _claim(self, partition: int, epoch: int) -> None:
        if self._owned.get(partition) == epoch:
            shadow = self._app.positions[group_of(partition)]
            request = ClaimPartition(READERS, TOPIC, partition, epoch)
            self._ask(self._leaders[partition], request, self._claimed, partition, epoch, shadow.acknowledged)

    def _claimed(self, partition: int, epoch: int, acknowledged: Offset, outcome: Outcome) -> None:
        if isinstance(outcome, OffsetCommitted):
            self._app.positions[group_of(partition)].claim_answered(self.name, epoch, outcome.offset, acknowledged)
            if self._owned.get(partition) == epoch:
                self._positions[partition] = max(outcome.offset, 0)
                self._later(self._pause_us(self._app.plan.commit_ms), self._commit, partition, epoch)
        elif not isinstance(outcome, StaleGenerationError):
            self._later(_RETRY_US, self._claim, partition, epoch)

    def _commit(self, partition: int, epoch: int) -> None:
        if self._owned.get(partition) != epoch or partition not in self._positions:
            return
        shadow = self._app.positions[group_of(partition)]
        position, end = self._positions[partition], shadow.next_offset
        offset = end if self._is_calm else self._random.randint(position, end)
        if offset > position or not self._is_calm:
            request = CommitOffset(READERS, TOPIC, partition, offset, epoch=epoch)
            arguments = (partition, epoch, shadow.acknowledged, shadow.claimed)
            self._ask(self._leaders[partition], request, self._committed, *arguments)
        else:
            self._later(self._pause_us(self._app.plan.commit_ms), self._commit, partition, epoch)

    def _committed(self, partition: int, epoch: int, acknowledged: Offset, claimed: int, outcome: Outcome) -> None:
        if isinstance(outcome, OffsetCommitted):
            shadow = self._app.positions[group_of(partition)]
            shadow.commit_answered(epoch, outcome.offset, acknowledged, claimed)
            self.committed_count += 1
            if self._owned.get(partition) == epoch:
                self._positions[partition] = max(outcome.offset, self._positions.get(partition, 0))
        elif isinstance(outcome, StaleGenerationError):
            # Another member has it; the next heartbeat will say so.
            return
        self._later(self._pause_us(self._app.plan.commit_ms), self._commit, partition, epoch)

    # Failures.

    def _get_into_trouble(self) -> None:
        dice = self._random.random()
        seen, trace = self._app.sometimes.seen, self._app.trace
        if dice < 0.35:
            seen("member crashed")
            trace.note(EVERYONE, f"member {self.name} crashes with {len(self._owned)} partition(s)")
            self._stop()
        elif dice < 0.75:
            seen("member paused")
            length_us = int(self._random.random() * 2.5 * self._app.plan.session_ms) * MS
            trace.note(EVERYONE, f"member {self.name} stalls for {length_us // MS} ms")
            self._paused_until_us = self._app.world.now_us + length_us
        else:
            self.leave()
        if not self._is_up:
            self._app.world.after(int(self._random.random() * 6 * SECOND), self._restart, self._life)

    def _restart(self, life: int) -> None:
        if life == self._life and not self._is_up:
            self.start()


def _ignore(_: Outcome) -> None:
    """Ignores the answer: silence has the same effect, later."""
