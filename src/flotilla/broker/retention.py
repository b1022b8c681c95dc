"""When a partition's oldest messages go: by age, count and bytes, but never what somebody holds.

The leader decides and proposes one TrimTo, so that every replica forgets at the same point; each replica
then shortens its own log, which frees the disk. That needs a snapshot behind the new start, so it waits for
the next one that is taken anyway, and asks for one when that takes too long.

Age is the time since a record was stored, by the leaders' clocks (queue/stamps): a producer whose clock is wrong
loses nothing by it. What is to be delivered later ages from then on: a delay may be longer than the retention, and
what is stored behind such a message stays with it. Entries that hold staged batches of a transaction stay until it
has ended.
"""

from collections.abc import Callable

from flotilla.broker.ports import Consensus
from flotilla.metadata.values import Topic
from flotilla.partition.state.machine import PartitionMachine
from flotilla.replica.replica import Replica
from flotilla.types.ids import Offset
from flotilla.types.topics import TopicSettings

#: How often a leader looks, at the most.
LOOK_MS = 2_000
#: How long what was trimmed may stay on the disk before a snapshot is taken for its sake.
RELEASE_MS = 60_000
#: Into so many parts age is told apart: what is too old may stay that share of its time longer.
_STAMPS = 64


def holders_of(topic: Topic) -> list[str]:
    """Groups that hold retention, whether anybody has come for them yet or not."""
    return [name for name, chosen in topic.groups if dict(chosen).get("holds_retention")]


class Retention:
    """One partition's."""

    def __init__(
        self, replica: Replica, machine: PartitionMachine, consensus: Consensus, is_informed: Callable[[], bool]
    ) -> None:
        """`is_informed`: who holds retention is known here, up to a moment ago."""
        self._replica = replica
        self._machine = machine
        self._consensus = consensus
        self._is_informed = is_informed
        self._look_ms = 0
        #: Everything below was let go of; and since when the log holds what nobody needs.
        self._released: Offset = 0
        self._slack_since_ms = 0

    # The leader's part.

    def target(self, settings: TopicSettings, held_from: Callable[[], Offset | None], now_ms: int) -> Offset | None:
        """Where the log should start; None: where it does, or it is too early to look again.

        Raises CorruptionError when the log cannot be read there.
        """
        machine = self._machine
        if now_ms < self._look_ms or machine.log_start == machine.next_offset:
            return None
        old_ms = now_ms - settings.retention_ms
        aged = machine.stored.end_before(old_ms) if settings.retention_ms else machine.log_start
        excess = self._excess(settings)
        is_due = max(aged, excess) > machine.log_start
        if is_due and not self._is_informed():
            return None
        self._look_ms = now_ms + LOOK_MS
        if not is_due:
            return None
        held = held_from()
        end = machine.next_offset if held is None else min(held, machine.next_offset)
        target = max(machine.index.first_later_than(old_ms, min(aged, end)), min(excess, end))
        return target if target > machine.log_start else None

    def _excess(self, settings: TopicSettings) -> Offset:
        """Everything below is more than the topic may keep, by count or by bytes."""
        machine = self._machine
        excess = machine.log_start
        if settings.retention_messages:
            excess = max(excess, machine.next_offset - settings.retention_messages)
        if settings.retention_bytes and self._replica.log.size_bytes() > settings.retention_bytes:
            excess = max(excess, self._replica.log.offset_within(settings.retention_bytes))
        return excess

    def wants_stamp(self, settings: TopicSettings, now_ms: int) -> bool:
        """Whether the log should be told the time, so that age can be known later. Idle partitions need none."""
        if not settings.retention_ms:
            return False
        machine = self._machine
        return machine.stored.is_due(now_ms, machine.next_offset, settings.retention_ms // _STAMPS)

    # Every replica's part.

    def release(self, now_ms: int) -> None:
        """Lets the log go as far as it was trimmed. Raises CorruptionError when it cannot be read there."""
        replica = self._replica
        if self._machine.log_start > self._released:
            needed = self._machine.needed_from()
            index = replica.index_holding(needed) if needed > self._released else None
            if index is not None:
                staged = self._machine.transactions.oldest_index()
                if staged is None or staged >= index:
                    self._released = needed
                else:
                    # What is staged will be read again; what is behind it goes when the transaction has ended.
                    index = staged
                replica.release_below(index)
        if not replica.has_slack():
            self._slack_since_ms = 0
        elif not self._slack_since_ms:
            self._slack_since_ms = now_ms
        elif now_ms - self._slack_since_ms >= RELEASE_MS:
            self._slack_since_ms = now_ms
            self._consensus.snapshot(replica.group)
