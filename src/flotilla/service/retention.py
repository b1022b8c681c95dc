"""When a partition's oldest messages go: by age, count and bytes, but never what somebody holds.

The leader decides and proposes one TrimTo, so that every replica forgets at the same point; each replica
then shortens its own log, which frees the disk. That needs a snapshot behind the new start, so it waits for
the next one that is taken anyway, and asks for one when that takes too long. A partition where nothing is old
enough costs a comparison: the time at which its oldest batch will be due is known.
"""

from collections.abc import Callable
from struct import Struct

from flotilla.queue.partition import PartitionMachine
from flotilla.replica.replica import Replica
from flotilla.service.ports import Consensus
from flotilla.types.ids import Offset
from flotilla.types.topics import TopicSettings

#: How often a leader looks, at the most.
LOOK_MS = 2_000
#: How long what was trimmed may stay on the disk before a snapshot is taken for its sake.
RELEASE_MS = 60_000
#: max_time_ms of a batch's header (codec/batch.py).
_MAX_TIME = Struct("<40xq")


class Retention:
    """One partition's."""

    def __init__(self, replica: Replica, machine: PartitionMachine, consensus: Consensus) -> None:
        self._replica = replica
        self._machine = machine
        self._consensus = consensus
        self._look_ms = 0
        #: What is known of the batch that age will take next: where it begins and the time of its youngest record.
        self._oldest: tuple[Offset, int] | None = None
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
        self._look_ms = now_ms + LOOK_MS
        target = machine.log_start
        if settings.retention_ms:
            target = max(target, self._by_age(now_ms - settings.retention_ms))
        if settings.retention_messages:
            target = max(target, machine.next_offset - settings.retention_messages)
        if settings.retention_bytes and self._replica.log.size_bytes() > settings.retention_bytes:
            target = max(target, self._replica.log.offset_within(settings.retention_bytes))
        target = min(target, machine.next_offset)
        if target > machine.log_start:
            held = held_from()
            target = target if held is None else min(target, held)
        return target if target > machine.log_start else None

    def _by_age(self, before_ms: int) -> Offset:
        """The first batch that has a record of that time or later."""
        machine = self._machine
        oldest = self._oldest
        if oldest is not None and oldest[0] >= machine.log_start and before_ms <= oldest[1]:
            return oldest[0]
        log = self._replica.log
        found = log.find_time(before_ms)
        if found is None or found >= machine.next_offset:
            self._oldest = None
            return machine.next_offset
        entries = log.read_from_offset(found, 0, self._replica.applied + 1)
        time_ms: int = _MAX_TIME.unpack_from(entries[0].data)[0]
        self._oldest = (found, time_ms)
        return found

    # Every replica's part.

    def release(self, now_ms: int) -> None:
        """Lets the log go as far as it was trimmed. Raises CorruptionError when it cannot be read there."""
        replica = self._replica
        if self._machine.log_start > self._released:
            needed = self._needed_from()
            if needed > self._released:
                entries = replica.log.read_from_offset(needed, 0, replica.applied + 1)
                replica.release_below(entries[0].index if entries else replica.applied + 1)
                self._released = needed
        if not replica.has_slack():
            self._slack_since_ms = 0
        elif not self._slack_since_ms:
            self._slack_since_ms = now_ms
        elif now_ms - self._slack_since_ms >= RELEASE_MS:
            self._slack_since_ms = now_ms
            self._consensus.snapshot(replica.group)

    def _needed_from(self) -> Offset:
        """The log's start, or a message before it that has died and is not in the dead-letter topic yet.

        A leader does not trim those; but it may not know of a death that is in the log just before its TrimTo.
        """
        dying = (group.lowest_dying() for group in self._machine.groups.values())
        return min([self._machine.log_start, *(offset for offset in dying if offset is not None)])
