"""The stream workload: producers, members that come and go, and a topic that grows.

When faults have ended, members behave: every member must come to own its share, and the group must read every partition
to its end.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from flotilla.codec.batch.records import encode_batch
from flotilla.replica.replica import Replica
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.plans.stream import METADATA, PARTITION_COUNT, TOPIC, group_of
from flotilla.sim.stream.host import StreamApplication, WatchedMetadata, WatchedPositions
from flotilla.sim.stream.members import StreamMember
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import GroupId
from flotilla.types.operations import AlterTopic, Produce, Produced
from flotilla.types.records import Record

#: A member that comes and goes while the others only read: the group changes although nothing is wrong.
_VISIT_US: Final = 3 * SECOND


class StreamWorkload:
    """All clients of the topic. Implements what `Run` and the faults need of a workload."""

    def __init__(self, cluster: Cluster) -> None:
        app = cluster.application
        assert isinstance(app, StreamApplication)
        self._cluster = cluster
        self._app = app
        app.wire.nodes = cluster.nodes
        self._random: Random = cluster.world.stream("stream workload")
        timeout_us = cluster.plan.timeout_us
        self._members = [StreamMember(number, app, timeout_us) for number in range(1, app.plan.members + 1)]
        self._visitor = StreamMember(0, app, timeout_us)
        self._producers = [
            Caller(app.wire, group_of(partition), self._random, timeout_us) for partition in range(PARTITION_COUNT)
        ]
        self._operator = Caller(app.wire, METADATA, self._random, timeout_us)
        self._produced_count = 0
        self._is_grown = False
        self._is_chaos = True
        self._is_stopped = False
        self.burst_actions: list[Callable[[], None]] = []

    # What a run needs.

    def start(self) -> None:
        for member in self._members:
            member.start()
        self._cluster.world.after(int(self._random.random() * self._cluster.plan.chaos_us), self._grow)
        self._burst()

    def calm(self) -> None:
        """No more bursts: a trickle, members without faults, and a visitor."""
        self._is_chaos = False
        for member in self._members:
            member.calm()
        self._trickle()
        self._visitor.calm()
        self._cluster.world.after(_VISIT_US, self._end_visit)

    def _end_visit(self) -> None:
        self._visitor.leave()
        if not self._is_stopped:
            self._cluster.world.after(_VISIT_US // 2, self._visit)

    def _visit(self) -> None:
        if not self._is_stopped:
            self._visitor.start()
            self._cluster.world.after(_VISIT_US, self._end_visit)

    def read_again(self) -> None:
        """Nothing to do in this workload."""

    def stop(self) -> None:
        """Nothing new; what is there is read to its end."""
        self._is_stopped = True
        self._visitor.leave()

    def progress(self, group: GroupId) -> int:
        shadow = self._app.ownership if group == METADATA else self._app.positions[group]
        return shadow.pages.entry_count

    @property
    def acknowledged(self) -> int:
        return self._produced_count + sum(member.committed_count for member in self._members)

    def has_converged(self, group: GroupId, replica: Replica) -> bool:
        machine = replica.machine
        assert isinstance(machine, (WatchedMetadata, WatchedPositions))
        shadow = self._app.ownership if group == METADATA else self._app.positions[group]
        return machine.applied == shadow.pages.newest and not self._left()

    @property
    def unfinished(self) -> str:
        """The promise that is broken when the members' work has not come to its end."""
        return "every partition is read" if self._left() else ""

    def _left(self) -> list[str]:
        """What is still to be done, for a failure report."""
        group = self._app.ownership.group
        if group is None or len(group.shares) != PARTITION_COUNT:
            return ["the topic has not grown"]
        names = [member.name for member in self._members]
        left = [f"{member.name} is no more" for member in group.members if member.name not in names]
        left += [f"{name} is no member" for name in names if not group.has_member(name)]
        for number, share in enumerate(group.shares):
            shadow = self._app.positions[group_of(number)]
            if share.owner != share.target:
                left.append(f"partition {number} is with {share.owner}, not {share.target}")
            elif max(shadow.position, 0) != shadow.next_offset:
                left.append(f"partition {number} is read up to {shadow.position} of {shadow.next_offset}")
        return left

    def judge(self) -> None:
        """The shadow was checked after every entry; at the end, everything is finished."""
        assert not self._left()

    def describe(self) -> str:
        return "; ".join(self._left()) or "everything is read"

    # Bursts.

    def _burst(self) -> None:
        if not self._is_chaos:
            return
        world, plan = self._cluster.world, self._cluster.plan
        for _ in range(min(int(self._random.expovariate(1.0) * plan.burst_operations) + 1, 20)):
            world.after(int(self._random.random() * 2 * SECOND), self._produce)
        actions, self.burst_actions = self.burst_actions, []
        for action in actions:
            world.after(int(self._random.random() * 2 * SECOND) + 1, action)
        world.after(int(self._random.expovariate(1.0) * plan.idle_us) + 1, self._burst)

    def _trickle(self) -> None:
        if not self._is_stopped:
            self._produce()
            self._cluster.world.after(300 * MS, self._trickle)

    def _produce(self) -> None:
        partition = self._random.randrange(PARTITION_COUNT)
        batch = encode_batch([Record(b"x")] * self._random.randint(1, 3))
        self._producers[partition].ask(Produce(TOPIC, partition, batch), self._produced)

    def _produced(self, outcome: Outcome) -> None:
        self._produced_count += isinstance(outcome, Produced)

    def _grow(self) -> None:
        self._operator.ask(AlterTopic(TOPIC, PARTITION_COUNT), self._grown)

    def _grown(self, outcome: Outcome) -> None:
        group = self._app.ownership.group
        if isinstance(outcome, FlotillaError) or group is None:
            self._cluster.world.after(SECOND, self._grow)
