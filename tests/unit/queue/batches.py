"""Real batches and commands as committed entries, for the tests of a partition."""

from dataclasses import dataclass

from flotilla.codec.batch import pack_header, parse_header, patch_base_offset
from flotilla.queue.commands import Command, encode_command
from flotilla.queue.facts import BatchFacts
from flotilla.queue.partition import PartitionMachine
from flotilla.raft.messages import DATA, Entry
from flotilla.types.errors import InvalidArgumentError

TERM = 3


def describe(data: bytes | memoryview) -> BatchFacts | None:
    try:
        header = parse_header(data)
    except InvalidArgumentError:
        return None
    return BatchFacts(
        header.base_offset,
        header.count,
        header.max_time_ms,
        header.producer_id,
        header.producer_epoch,
        header.producer_sequence,
        header.length,
    )


def batch(
    base_offset: int = 0, *, count: int = 1, producer: int = 0, epoch: int = 0, sequence: int = 0, time_ms: int = 1
) -> bytes:
    body = b"x" * count
    header = pack_header(
        body,
        count=count,
        first_time_ms=time_ms,
        max_time_ms=time_ms,
        producer_id=producer,
        producer_epoch=epoch,
        producer_sequence=sequence,
    )
    data = bytearray(header + body)
    patch_base_offset(data, base_offset, TERM)
    return bytes(data)


def facts(count: int = 1, producer: int = 0, epoch: int = 0, sequence: int = 0) -> BatchFacts:
    """A batch as it comes in, before it has an offset."""
    found = describe(batch(count=count, producer=producer, epoch=epoch, sequence=sequence))
    assert found is not None
    return found


@dataclass
class Log:
    """Gives committed entries their index. Indexes are not dense: no-ops take some."""

    machine: PartitionMachine
    index: int = 0

    def apply(self, data: bytes) -> object:
        self.index += 2
        return self.machine.apply(Entry(self.index, TERM, DATA, data))

    def command(self, command: Command) -> object:
        return self.apply(encode_command(command))

    def append(self, *, count: int = 1, producer: int = 0, epoch: int = 0, sequence: int = 0, time_ms: int = 1) -> int:
        """Stores a batch behind the others and tells its offset."""
        offset = self.machine.next_offset
        stored = self.apply(
            batch(offset, count=count, producer=producer, epoch=epoch, sequence=sequence, time_ms=time_ms)
        )
        assert isinstance(stored, BatchFacts)
        assert stored.base_offset == offset
        return offset


def new_log(entries_max: int = 100, window_ms: int = 1000) -> Log:
    return Log(PartitionMachine(describe, entries_max=entries_max, window_ms=window_ms))
