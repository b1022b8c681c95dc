"""Real batches and commands as committed entries, for the tests of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass

from flotilla.codec.batch.facts import facts_of
from flotilla.codec.batch.header import patch_base_offset
from flotilla.codec.batch.records import encode_batch
from flotilla.partition.batch_facts import BatchFacts
from flotilla.partition.commands.partition_commands import Command, encode_command
from flotilla.partition.state.machine import PartitionMachine
from flotilla.raft.messages import DATA, Entry
from flotilla.types.records import Record

TERM = 3

describe = facts_of


def batch(
    base_offset: int = 0,
    *,
    count: int = 1,
    producer: int = 0,
    epoch: int = 0,
    sequence: int = 0,
    time_ms: int = 1,
    priority: int = 0,
    deliver_at_ms: int = 0,
    keys: Sequence[bytes] = (),
) -> bytes:
    """With `keys` there are as many records as keys."""
    records = [
        Record(b"x", timestamp_ms=time_ms, priority=priority, deliver_at_ms=deliver_at_ms, idempotency_key=key)
        for key in keys or [b""] * count
    ]
    encoded = encode_batch(records, producer_id=producer, producer_epoch=epoch, sequence=sequence)
    data = bytearray(encoded)
    patch_base_offset(data, base_offset, TERM)
    return bytes(data)


def facts(
    count: int = 1, producer: int = 0, epoch: int = 0, sequence: int = 0, keys: Sequence[bytes] = ()
) -> BatchFacts:
    """A batch as it comes in, before it has an offset."""
    found = describe(batch(count=count, producer=producer, epoch=epoch, sequence=sequence, keys=keys))
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

    def append(
        self,
        *,
        count: int = 1,
        producer: int = 0,
        epoch: int = 0,
        sequence: int = 0,
        time_ms: int = 1,
        priority: int = 0,
        deliver_at_ms: int = 0,
        keys: Sequence[bytes] = (),
    ) -> int:
        """Stores a batch after the others, and returns its offset."""
        offset = self.machine.next_offset
        stored = self.apply(
            batch(
                offset,
                count=count,
                producer=producer,
                epoch=epoch,
                sequence=sequence,
                time_ms=time_ms,
                priority=priority,
                deliver_at_ms=deliver_at_ms,
                keys=keys,
            )
        )
        assert isinstance(stored, BatchFacts)
        assert stored.base_offset == offset
        return offset


def new_log(entries_max: int = 100, window_ms: int = 1000, horizon_ms: int = 0) -> Log:
    """Without a horizon the count takes the oldest at once."""
    return Log(PartitionMachine(describe, entries_max=entries_max, window_ms=window_ms, horizon_ms=horizon_ms))
