"""The queue engine alone: poll, ack, the bytes of commands, and applying them at all replicas.

Relates the cost of a message out of a large backlog, with many groups, with all priorities in use or beside a million
failed ones, to the cost out of a small backlog with one group and one priority; and counts the bytes of a million
leased messages.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from struct import Struct
from time import process_time

from bench.figure import Figure, Goal, compare, relate
from bench.options import BenchOptions
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import Command, OpenGroup, encode_command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.group import Failure
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.messages import DATA, Entry
from flotilla.types.group_settings import resolve_rules
from flotilla.types.limits import GROUP_FAILED_COUNT_MAX, MIB
from flotilla.types.operations.queue import ACK, BY_BACKOFF, LeaseRange
from flotilla.types.topics import resolve_settings

AREA = "queue"
MESSAGES_PER_SECOND_MIN = 1_000_000
LEASED_BYTES_MAX = 50 * MIB
BACKLOG_BYTES_MAX = 200 * MIB

_BATCH = Struct("<QIB")
_BATCH_COUNT = 100
_POLL_COUNT = 256
#: Messages that a group takes before the backlog is filled up again: far fewer than the smallest backlog.
_TURN_COUNT = 5_000
_NOW_MS = 1_000
#: Failed messages wait at least until then, which does not come.
_RETRY_MS = 3_600_000
_REASONS = tuple(f"reason {number}" for number in range(7))
_RULES = resolve_rules(resolve_settings(()))


def _describe(data: bytes | memoryview) -> BatchFacts | None:
    """Batches of the bench are three numbers; everything else is a command."""
    if len(data) != _BATCH.size:
        return None
    base_offset, count, priority = _BATCH.unpack(data)
    return BatchFacts(base_offset, count, 1, 0, 0, 0, len(data), priority)


@dataclass(frozen=True, slots=True)
class Load:
    backlog: int = 10_000
    groups: int = 1
    priorities: int = 1
    #: Older messages of the first group that have failed, each to be retried at a time of its own.
    failed: int = 0


class Subject:
    """A partition with its leader and a backlog that every group has before it."""

    def __init__(self, load: Load) -> None:
        self._index = 0
        self._machine = PartitionMachine(_describe)
        self._priorities = load.priorities
        self.names = [f"group-{number}" for number in range(load.groups)]
        for name in self.names:
            self._command(OpenGroup(name, 0, _NOW_MS))
        self._fail(load.failed)
        self.leader = QueueLeader(self._machine, 1, _NOW_MS, Random(1), 0, lambda _: _RULES)
        self.append(load.backlog)

    def _apply(self, data: bytes) -> object:
        self._index += 1
        return self._machine.apply(Entry(self._index, 1, DATA, data))

    def _command(self, command: Command) -> None:
        self._apply(encode_command(command))

    def append(self, count: int) -> None:
        for facts in self._store(count):
            self.leader.applied(facts)

    def _store(self, count: int) -> list[BatchFacts]:
        found = []
        for number in range(-(-count // _BATCH_COUNT)):
            facts = self._apply(_BATCH.pack(self._machine.next_offset, _BATCH_COUNT, number % self._priorities))
            assert isinstance(facts, BatchFacts)
            found.append(facts)
        return found

    def _fail(self, count: int) -> None:
        """In an order of times that is not that of offsets. Not by commands, which would take a minute."""
        self._store(count)
        failures = self._machine.groups[self.names[0]].failures
        for offset in range(count):
            retry_ms = _RETRY_MS + offset * 7_919 % count
            failures.set(offset, offset + 1, Failure(1, retry_ms, _REASONS[offset % len(_REASONS)]))

    def poll(self, name: str, count: int) -> list[LeaseRange]:
        """Cut where batches end, as they are delivered and settled."""
        return [
            LeaseRange(lease.lease_id, max(lease.first, first), min(lease.end, first + _BATCH_COUNT))
            for lease in self.leader.poll(name, "member", count, 0, _NOW_MS)
            for first in range(lease.first - lease.first % _BATCH_COUNT, lease.end, _BATCH_COUNT)
        ]

    def poll_and_ack(self, name: str) -> int:
        """How many messages."""
        held = self.poll(name, _POLL_COUNT)
        refused = self.leader.settle(name, ACK, held, "", BY_BACKOFF, _NOW_MS)
        assert not refused
        command = self.leader.take_outbox(_NOW_MS)
        assert command is not None
        self._command(command)
        self.leader.committed(command)
        return sum([each.end - each.first for each in held])


def rate(load: Load, messages: int) -> Callable[[], float]:
    """Messages per second. The backlog is filled up again outside the measured time."""
    subject = Subject(load)
    each = min(-(-messages // len(subject.names)), _TURN_COUNT)
    turns = -(-messages // (each * len(subject.names)))

    def measured() -> float:
        count = 0
        seconds = 0.0
        for _ in range(turns):
            began = process_time()
            for name in subject.names:
                taken = 0
                while taken < each:
                    taken += subject.poll_and_ack(name)
                count += taken
            seconds += process_time() - began
            subject.append(taken)
        return count / seconds

    return measured


def traced_bytes(build: Callable[[], object]) -> int:
    tracemalloc.start()
    kept = build()
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return used


def leased_bytes(messages: int) -> int:
    """Bytes of the given messages in leases of a hundred, without the rest of the state."""
    subject = Subject(Load(backlog=messages))

    def lease() -> object:
        for _ in range(messages // _BATCH_COUNT):
            subject.poll(subject.names[0], _BATCH_COUNT)
        return subject

    return traced_bytes(lease)


def measure(options: BenchOptions) -> list[Figure]:
    messages = options.pick(quick=50_000, full=400_000)
    small = rate(Load(), messages)
    figures = [
        compare(
            AREA,
            f"poll({_POLL_COUNT}) and ack",
            "msg/s",
            subject=small,
            probe=lambda: float(MESSAGES_PER_SECOND_MIN),
            probe_name="wanted",
            goal=Goal(1.0),
            rounds=options.rounds,
            note="the queue engine alone: bytes of commands are made and read, nothing is stored or sent",
        )
    ]
    loads = {
        "with a backlog of 10 million": Load(backlog=10_000_000),
        "with 1,000 groups": Load(groups=1_000),
        "with 8 priorities": Load(priorities=8),
        "with a million failed that wait": Load(failed=GROUP_FAILED_COUNT_MAX - _BATCH_COUNT),
    }
    for name, load in loads.items():
        figures.append(_cost(name, rate(load, messages), small, options))
    leased = leased_bytes(1_000_000)
    figures.append(_memory("1 million leased in hundreds", leased, LEASED_BYTES_MAX))
    backlog = traced_bytes(lambda: Subject(Load(backlog=10_000_000, priorities=8)))
    figures.append(_memory("10 million waiting, 8 priorities in turn", backlog, BACKLOG_BYTES_MAX))
    return figures


def _cost(name: str, large: Callable[[], float], small: Callable[[], float], options: BenchOptions) -> Figure:
    return compare(
        AREA,
        f"cost of a message {name}",
        "s/msg",
        subject=lambda: 1 / large(),
        probe=lambda: 1 / small(),
        probe_name="10,000, one group, one priority",
        goal=Goal(1.3, at_most=True),
        rounds=options.rounds,
    )


def _memory(name: str, used: int, bound: int) -> Figure:
    pairs = [(float(used), float(bound))]
    return relate(AREA, name, "bytes", pairs=pairs, probe_name="allowed", goal=Goal(1.0, at_most=True))


def main() -> None:
    """Prints the figures without the rest of the bench."""
    from pathlib import Path

    for figure in measure(BenchOptions(Path(), quick=False)):
        print(f"{figure.name}: {figure.value:,.9g} {figure.unit}, ratio {figure.ratio:.3f}, met: {figure.is_met}")


if __name__ == "__main__":
    main()
