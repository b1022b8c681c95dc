"""The queue workload: producers, members of queue groups, clients of transactions, a reader with a position, and a
client that cancels messages.

Work comes in bursts, in which faults strike too. When faults have ended, members behave, limits are lifted, and
everything that was stored must come to its end in every group: done, dead and in the dead-letter topic once, expired,
cancelled or trimmed.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from flotilla.codec.batch.facts import span_of
from flotilla.partition.commands import partition_commands as commands
from flotilla.partition.commands.partition_commands import (
    BuryDeaths,
    Command,
    DeleteGroup,
    GroupSettlement,
    SettleRuns,
    TrimTo,
    encode_command,
)
from flotilla.partition.explain.explanation import explain_message
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver
from flotilla.sim.checkers.violation import Violation
from flotilla.sim.cluster import Cluster
from flotilla.sim.devices.world import MS, SECOND
from flotilla.sim.node import SimNode
from flotilla.sim.plans.queue import DEAD_LETTERS, TOPIC, WORK
from flotilla.sim.plans.queue_message import Letter
from flotilla.sim.queue.consumers import Consumer
from flotilla.sim.queue.host import QueueApplication, WatchedPartition
from flotilla.sim.queue.producers import KINDS, Identities, Producer
from flotilla.sim.queue.transactors import Transactor
from flotilla.sim.wire import Caller, Outcome
from flotilla.types.errors import CorruptionError, NotLoadedError, StorageFailedError
from flotilla.types.ids import GroupId, Offset
from flotilla.types.operations import CommitOffset, OffsetCommitted, ReadOffset
from flotilla.types.operations.queue import FROM_OFFSET, CancelRecords, RecordsCancelled, ResetGroup, Start

_READER: Final = "reader"


class PositionReader:
    """Commits its position, sometimes an old one, and must never be answered with an older one than before."""

    def __init__(self, group: GroupId, app: QueueApplication, timeout_us: int) -> None:
        self._app = app
        self._group = group
        self._random: Random = app.world.stream(f"reader {group}")
        self._caller = Caller(app.wire, group, self._random, timeout_us)
        self._highest: Offset = 0
        self.is_running = True
        self.acknowledged = 0

    def begin(self) -> None:
        if not self.is_running:
            return
        if self._random.random() < 0.3:
            self._caller.ask(ReadOffset(_READER, "topic", 0), self._answered)
        else:
            end = self._app.shadow[self._group].next_offset
            self._caller.ask(CommitOffset(_READER, "topic", 0, self._random.randint(0, end)), self._answered)

    def _answered(self, outcome: Outcome) -> None:
        if isinstance(outcome, OffsetCommitted):
            if outcome.offset < self._highest:
                raise Violation("positions never go back", f"from {self._highest} to {outcome.offset}")
            self._highest = outcome.offset
            self.acknowledged += 1
        self._app.world.after(int((0.2 + self._random.random()) * SECOND), self.begin)


class QueueWorkload:
    """All clients of the queue. Implements what `Run` and the faults need of a workload."""

    def __init__(self, cluster: Cluster) -> None:
        app = cluster.application
        assert isinstance(app, QueueApplication)
        self._cluster = cluster
        self._app = app
        app.wire.nodes = cluster.nodes
        self._random: Random = cluster.world.stream("queue workload")
        timeout_us = cluster.plan.timeout_us
        identities = Identities()
        self._producers = [Producer(number, app, identities, timeout_us) for number in range(len(KINDS))]
        self._consumers = [
            Consumer(number, group, app, timeout_us)
            for group in app.plan.groups
            for number in range(1, group.members + 1)
        ]
        self._transactors = [
            Transactor(number, app, identities, timeout_us) for number in range(1, app.plan.transactors + 1)
        ]
        self._readers = [PositionReader(group, app, timeout_us) for group in (TOPIC, DEAD_LETTERS)]
        #: A client that cancels messages and resets groups.
        self._operator = Caller(app.wire, TOPIC, self._random, timeout_us)
        self._batches_left = app.plan.batches_max
        self._is_chaos = True
        self._is_stopped = False
        self.burst_actions: list[Callable[[], None]] = []

    # What a run needs.

    def start(self) -> None:
        for consumer in self._consumers:
            consumer.start()
        for reader in self._readers:
            reader.begin()
        for transactor in self._transactors:
            transactor.start()
        self._burst()

    def calm(self) -> None:
        """No more bursts: a trickle, and members that behave."""
        self._is_chaos = False
        self._app.raise_limits()
        for consumer in self._consumers:
            consumer.calm()
        for transactor in self._transactors:
            transactor.calm()
        self._trickle()

    def read_again(self) -> None:
        """Nothing to do in this workload."""

    def stop(self) -> None:
        """Nothing new; what is there comes to its end."""
        self._is_stopped = True
        for reader in self._readers:
            reader.is_running = False

    def progress(self, group: GroupId) -> int:
        return self._app.shadow[group].entry_count

    @property
    def acknowledged(self) -> int:
        """Everything that a client was answered is done."""
        settled = sum(consumer.settled_count for consumer in self._consumers)
        produced = sum(producer.acknowledged for producer in self._producers)
        decided = sum(transactor.acknowledged for transactor in self._transactors)
        return settled + produced + decided + sum(reader.acknowledged for reader in self._readers)

    def has_converged(self, group: GroupId, replica: Replica) -> bool:
        machine = replica.machine
        assert isinstance(machine, WatchedPartition)
        shadow = self._app.shadow[group]
        return machine.applied == shadow.newest and (group != TOPIC or self._is_drained())

    @property
    def unfinished(self) -> str:
        """The promise that is broken when the clients' work has not come to its end."""
        if not self._are_transactions_over():
            return "every transaction ends"
        return "" if self._is_drained() else "every message ends"

    def _are_transactions_over(self) -> bool:
        return all(transactor.is_idle for transactor in self._transactors) and not any(
            shadow.stages.open for shadow in self._app.shadow.values()
        )

    def _is_drained(self) -> bool:
        shadow = self._app.shadow[TOPIC]
        if not all(producer.is_idle for producer in self._producers) or not self._are_transactions_over():
            return False
        return len(shadow.groups) == len(self._app.plan.groups) and all(
            group.floor == shadow.next_offset
            and (len(group.buried) == len(group.deaths) or not self._app.rules[group.name].dead_letters)
            for group in shadow.groups.values()
        )

    def judge(self) -> None:
        """Everything is settled everywhere; the dead messages, and only they, are in the dead-letter topic.

        What was committed is visible, and nothing is staged any more.
        """
        for shadow in self._app.shadow.values():
            shadow.stages.judge()
        dead = {
            Letter(number, offset, group.name): None
            for group in self._app.shadow[TOPIC].groups.values()
            for number, offset in enumerate(group.deaths)
        }
        for letter in self._app.letters:
            if letter not in dead:
                raise Violation("dead-lettered once", f"{letter} is in the dead-letter topic and never died")
        for letter in dead:
            if letter not in self._app.letters:
                raise Violation("dead-lettered once", f"{letter} died and is not in the dead-letter topic")
        hashes: dict[GroupId, str] = {}
        for node in self._cluster.nodes.values():
            for group in (TOPIC, DEAD_LETTERS):
                raft = self._cluster.raft(node, group)
                if raft is None or node.id not in self._cluster.observers[group].newest_configuration.members():
                    continue
                assert node.driver is not None
                machine = node.driver.replicas[group].machine
                assert isinstance(machine, WatchedPartition)
                found = machine.state_hash()
                if hashes.setdefault(group, found) != found:
                    raise Violation("replicas converge", f"node {node.id} holds another state of group {group}")
                _check_log(node, node.driver.replicas[group], machine)

    def describe(self) -> str:
        """What is not settled, for a failure report."""
        shadow = self._app.shadow[TOPIC]
        parts = [f"{shadow.next_offset} messages, log starts at {shadow.log_start}"]
        for group in shadow.groups.values():
            left = [offset for offset in range(group.floor, shadow.next_offset) if offset not in group.settled]
            parts.append(
                f"{group.name}: {len(left)} left {left[:5]}, {len(group.deaths)} dead, {len(group.buried)} buried"
            )
            term = self._app.leading(TOPIC)
            if term is not None:
                now_ms = term.now_ms()
                parts += [
                    f"  {offset}: {explain_message(term.queue, group.name, offset, now_ms)}" for offset in left[:3]
                ]
        return "\n  ".join(parts)

    # Bursts.

    def _burst(self) -> None:
        if not self._is_chaos:
            return
        world, plan = self._cluster.world, self._cluster.plan
        batches = min(int(self._random.expovariate(1.0) * plan.burst_operations) + 1, self._batches_left)
        self._batches_left -= batches
        for _ in range(batches):
            self._random.choice(self._producers).give(1)
        if self._app.plan.cancels:
            world.after(int(self._random.random() * 3 * SECOND), self._cancel)
        if self._app.plan.resets and self._random.random() < 0.7:
            world.after(int(self._random.random() * 3 * SECOND), self._reset)
        if self._random.random() < 0.3:
            world.after(int(self._random.random() * SECOND), self._propose_garbage)
        actions, self.burst_actions = self.burst_actions, []
        for action in actions:
            world.after(int(self._random.random() * 2 * SECOND) + 1, action)
        world.after(int(self._random.expovariate(1.0) * plan.idle_us) + 1, self._burst)

    def _trickle(self) -> None:
        if not self._is_stopped:
            self._random.choice(self._producers).give(1)
            self._cluster.world.after(500 * MS, self._trickle)

    def _cancel(self) -> None:
        shadow = self._app.shadow[TOPIC]
        if self._is_chaos and shadow.next_offset:
            newest = shadow.next_offset - 1
            request = CancelRecords("topic", 0, [max(newest - self._random.randrange(10), 0)])
            self._operator.ask(request, self._cancelled)

    def _cancelled(self, outcome: Outcome) -> None:
        if isinstance(outcome, RecordsCancelled):
            shadow = self._app.shadow[TOPIC]
            for offset in outcome.offsets:
                for group in shadow.groups.values():
                    if offset >= group.start and offset not in group.settled:
                        raise Violation("nothing is forgotten", f"message {offset} was cancelled and lives")

    def _reset(self) -> None:
        """Back by a few messages: what was done is to be done again."""
        group = self._app.shadow[TOPIC].groups.get(WORK)
        if self._is_chaos and group is not None:
            offset = max(group.floor - self._random.randrange(10), 0)
            self._operator.ask(ResetGroup("topic", 0, WORK, Start(FROM_OFFSET, offset)), _ignore)

    def _propose_garbage(self) -> None:
        """An entry that no leader would propose: it must be answered, change nothing and stop no replica."""
        random = self._random
        node = self._cluster.leader(TOPIC)
        if node is None or not self._is_chaos:
            return
        beyond = self._app.shadow[TOPIC].next_offset + 1_000
        now_ms = node.cluster_clock.now_ms()
        command: Command = random.choice(
            (
                TrimTo(beyond, now_ms),
                BuryDeaths(WORK, beyond, now_ms),
                commands.CancelRecords((0, beyond), now_ms),
                commands.CommitOffset(_READER, beyond, now_ms),
                SettleRuns(now_ms, (GroupSettlement(WORK, acked=((0, 1), (beyond, beyond + 1))),)),
                DeleteGroup("nobody", now_ms),
            )
        )
        data = encode_command(command)
        if random.random() < 0.4:
            data = data[: random.randrange(1, len(data))] if random.random() < 0.5 else random.randbytes(len(data))
        self._app.sometimes.seen("garbage in the log")

        def propose(driver: Driver) -> None:
            driver.propose(TOPIC, data, _Ignored())

        node.call(propose)


def _check_log(node: SimNode, replica: Replica, machine: WatchedPartition) -> None:
    """Everything that was not trimmed is in the log of every replica: any of them may lead next."""
    if machine.log_start == machine.next_offset:
        return
    try:
        entries = replica.log.read_from_offset(machine.log_start, 0, replica.applied + 1)
    except (CorruptionError, NotLoadedError, StorageFailedError):
        # Rot that no read has met yet; it is repaired when one does.
        return
    span = span_of(entries[0]) if entries else None
    if span is None or span.base_offset > machine.log_start:
        raise Violation("every replica holds the log", f"node {node.id} has lost message {machine.log_start}")


def _ignore(_: Outcome) -> None:
    """Ignores the answer: the effect will show."""


class _Ignored:
    """Ignores the answer."""

    __slots__ = ()

    def answered(self, node: SimNode, result: object) -> None:
        return
