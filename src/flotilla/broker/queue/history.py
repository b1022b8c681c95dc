"""The history of one message from the log, read piece by piece over several turns of the loop.

The last piece and the answer share a turn, so the history ends with the current state. Damage in the log is reported
in the history and does not fail it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from flotilla.broker.ports import Cancel
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.codec.batch.facts import facts_of
from flotilla.partition.explain.history import MessageHistory
from flotilla.raft.messages import DATA
from flotilla.types.errors import CorruptionError, FlotillaError
from flotilla.types.ids import Index, Offset
from flotilla.types.limits import KIB, MIB

#: Per turn of the loop: a few milliseconds, if the log is nothing but single acks.
PIECE_BYTES = 64 * KIB
#: Of one history.
READ_BYTES_MAX = 64 * MIB
READ_ENTRIES_MAX = 100_000

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, as everything here; written without a zone


class HistoryReader:
    """Reads the history of one message for one group. `finished` is called once, with an error if it failed.

    Not after `give_up`.
    """

    def __init__(
        self, queue: PartitionQueue, group: str, offset: Offset, finished: Callable[[FlotillaError | None], None]
    ) -> None:
        self.past = MessageHistory(group, queue.machine.groups[group].born, offset, facts_of, moment)
        self._queue = queue
        self._offset = offset
        self._finished = finished
        self._next_index: Index = 0
        self._read_bytes = 0
        self._read_entries = 0
        self._stop: Cancel | None = None

    def begin(self) -> bool:
        """True: it has finished already."""
        if self._find() and not self._read_piece():
            self._stop = self._queue.next_turn(self._go_on)
            return False
        self._finished(None)
        return True

    def give_up(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def _go_on(self) -> None:
        self._stop = self._queue.loads.run(self._read_on, self._finished)

    def _read_on(self) -> Cancel | None:
        self._queue.check_serving()
        if self._read_piece():
            self._finished(None)
            return None
        return self._queue.next_turn(self._go_on)

    def _find(self) -> bool:
        """Finds the start: after the entry with the message, or the oldest entry left. False: the log is damaged."""
        replica = self._queue.replica
        try:
            found = replica.log.read_from_offset(self._offset, 0, replica.readable_end)
        except CorruptionError as error:
            self.past.break_off(f"the log cannot be read where it is ({error})")
            return False
        facts = facts_of(found[0].data) if found else None
        if facts is not None and facts.base_offset <= self._offset < facts.base_offset + facts.count:
            self.past.begin(found[0].index, facts, self._own_time_ms())
            self._next_index = found[0].index + 1
        else:
            self.past.begin_late()
            self._next_index = replica.log.first_index()
        return True

    def _own_time_ms(self) -> int | None:
        try:
            return self._queue.reader.time_ms(self._offset)
        except CorruptionError:
            return None

    def _read_piece(self) -> bool:
        """True: that was the last one."""
        replica = self._queue.replica
        end = replica.readable_end
        if self._next_index >= end:
            return True
        if self._next_index < replica.log.first_index():
            self.past.break_off("the log was trimmed while it was read")
            return True
        try:
            entries = replica.log.entries(self._next_index, end, PIECE_BYTES)
        except CorruptionError as error:
            self.past.break_off(f"the log cannot be read any further ({error})")
            return True
        for entry in entries:
            if entry.kind == DATA:
                self.past.add(entry.index, entry.data)
            self._read_bytes += entry.size_bytes
        self._read_entries += len(entries)
        self._next_index = entries[-1].index + 1
        if self._next_index >= end:
            return True
        if self._read_bytes >= READ_BYTES_MAX or self._read_entries >= READ_ENTRIES_MAX:
            self.past.break_off(f"only {self._read_entries} entries of the log were read")
            return True
        return False


def moment(time_ms: int) -> str:
    """ISO 8601, in UTC, to the millisecond; a time outside the calendar as a number."""
    try:
        return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds") + "Z"
    except OverflowError:
        return f"{time_ms} ms"
