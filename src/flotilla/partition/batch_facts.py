"""What a partition must know of a record batch; the records themselves stay opaque.

The layout of a batch is the codec's; whoever builds a partition hands in a function that reads these
facts from an entry's bytes, or says that they are no batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from flotilla.types.ids import Offset


@dataclass(slots=True)
class BatchFacts:
    """The header of one batch, as far as it is replicated state."""

    #: Of the first record. Meaningful once the leader has assigned it.
    base_offset: Offset
    #: Records, at least one.
    count: int
    max_time_ms: int
    #: 0: the producer does not ask to be protected against repetition.
    producer_id: int
    producer_epoch: int
    #: Of the first record, modulo 2**32; the records behind it count on.
    producer_sequence: int
    size_bytes: int
    #: 0 to 7, of all records.
    priority: int = 0
    #: Of all records: queue groups get them no earlier. 0: at once.
    deliver_at_ms: int = 0
    #: One for each record, empty where it has none; or nothing at all, when none has.
    idempotency_keys: tuple[bytes, ...] = ()
    #: A part of a transaction that was staged before. `producer_id` says of which one.
    is_transactional: bool = False


Describe: TypeAlias = Callable[[bytes | memoryview], BatchFacts | None]
