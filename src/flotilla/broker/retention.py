"""Retention of a partition: removes the oldest messages by age, count and bytes, except what a group holds.

What is held is in `retention_holds`. A second bound on bytes, `retention_bytes_hard`, passes over every group.

The leader decides and proposes one TrimTo, so that every replica trims at the same offset; each replica then shortens
its own log, which frees the disk. That needs a snapshot past the new start, so it waits for the next scheduled one and
requests one when that takes too long.

Age is the time since a record was stored, in log time (partition/leader/log_time, partition/state/stored_times): no
producer and no broker with a wrong clock loses anything, and without a majority of clocks nothing goes by age. A
message that waits, for its delivery time or for its next attempt, ages from that time (partition/state/waiting): a
delay may be longer than the retention, and messages stored after it stay with it. Entries with staged batches of a
transaction stay until it has ended.
"""

from collections.abc import Callable
from typing import Protocol

from flotilla.broker.retention_holds import HeldBack, Holds
from flotilla.partition.state.machine import PartitionMachine
from flotilla.partition.state.waiting import first_waiting
from flotilla.replica.replica import Replica
from flotilla.types.ids import GroupId, Offset
from flotilla.types.topics import TopicSettings

#: Between two looks of a leader.
LOOK_MS = 2_000
#: How long trimmed entries may stay on disk before a snapshot is requested.
RELEASE_MS = 60_000
#: Resolution of age: a message may stay longer by this part of the retention.
_STAMPS = 64


class Snapshots(Protocol):
    def snapshot(self, group: GroupId) -> None:
        """Takes a snapshot now, whether one is due or not."""


class Retention:
    """The retention of one partition."""

    def __init__(
        self, replica: Replica, machine: PartitionMachine, snapshots: Snapshots, is_informed: Callable[[], bool]
    ) -> None:
        """`is_informed`: this node knows the current holders of retention."""
        self._replica = replica
        self._machine = machine
        self._snapshots = snapshots
        self._is_informed = is_informed
        #: What groups hold beyond the limits, while this node leads.
        self.held_back = HeldBack()
        self._look_ms = 0
        #: Everything below was released; and since when the log holds entries that are not needed.
        self._released: Offset = 0
        self._slack_since_ms = 0

    # The leader's part.

    def target(
        self, settings: TopicSettings, find_holds: Callable[[], Holds], now_ms: int, aged_ms: int | None
    ) -> Offset | None:
        """Where the log should start; None: where it starts now, or it is too early to look again.

        `aged_ms` is the time from which ages count; None: no majority of clocks confirms any. Raises CorruptionError
        when the log cannot be read there.
        """
        machine = self._machine
        if now_ms < self._look_ms:
            return None
        is_by_age = settings.retention_ms and aged_ms is not None
        old_ms = (aged_ms or 0) - settings.retention_ms
        aged = machine.stored.end_before(old_ms) if is_by_age else machine.log_start
        excess = self._excess(settings)
        hard = self._beyond(settings.retention_bytes_hard)
        limit = max(aged, excess)
        is_due = max(limit, hard) > machine.log_start
        if is_due and not self._is_informed():
            return None
        self._look_ms = now_ms + LOOK_MS
        if not is_due:
            self.held_back.clear()
            return None
        holds = find_holds()
        end = machine.next_offset if holds.first is None else min(holds.first, machine.next_offset)
        # Delays are in cluster time, which log time may be ahead of. One message further than what is held: if that
        # one waits for its time, nobody holds it back.
        due_ms = min(old_ms, now_ms - settings.retention_ms)
        reach = max(first_waiting(machine, due_ms, min(aged, end + 1)), min(excess, end + 1))
        self.held_back.note(holds.groups, machine.log_start, limit if reach > end else machine.log_start, now_ms)
        # Messages on their way to the dead letters are needed still: nothing would be freed behind them.
        target = max(min(reach, end), hard if holds.dying is None else min(hard, holds.dying))
        return target if target > machine.log_start else None

    def _excess(self, settings: TopicSettings) -> Offset:
        """Everything below exceeds the limits on count or bytes."""
        machine = self._machine
        excess = machine.log_start
        if settings.retention_messages:
            excess = max(excess, machine.next_offset - settings.retention_messages)
        return max(excess, self._beyond(settings.retention_bytes))

    def _beyond(self, bytes_max: int) -> Offset:
        """Everything below exceeds that many bytes; 0: there is no limit."""
        machine, log = self._machine, self._replica.log
        if not bytes_max or machine.log_start == machine.next_offset or log.size_bytes() <= bytes_max:
            return machine.log_start
        return max(log.offset_within(bytes_max), machine.log_start)

    def wants_stamp(self, settings: TopicSettings, log_ms: int) -> bool:
        """Whether to write the time into the log, so that ages can be computed later. Idle partitions need none."""
        if not settings.retention_ms:
            return False
        machine = self._machine
        return machine.stored.is_due(log_ms, machine.next_offset, settings.retention_ms // _STAMPS)

    # Every replica's part.

    def release(self, steady_ms: int) -> None:
        """Releases the log up to where it was trimmed. Raises CorruptionError when it cannot be read there."""
        replica = self._replica
        if self._machine.log_start > self._released:
            needed = self._machine.needed_from()
            index = replica.index_holding(needed) if needed > self._released else None
            if index is not None:
                staged = self._machine.transactions.oldest_index()
                if staged is None or staged >= index:
                    self._released = needed
                else:
                    # Staged batches will be read again; later entries go when the transaction has ended.
                    index = staged
                replica.release_below(index)
        if not replica.has_slack():
            self._slack_since_ms = 0
        elif not self._slack_since_ms:
            self._slack_since_ms = steady_ms
        elif steady_ms - self._slack_since_ms >= RELEASE_MS:
            self._slack_since_ms = steady_ms
            self._snapshots.snapshot(replica.group)
