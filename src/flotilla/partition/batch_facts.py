"""The facts of a record batch that a partition needs; the records themselves stay opaque.

The codec knows the layout of a batch: a partition is built with its function, which reads these facts from an entry's
bytes, or returns None for bytes that are no batch.
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
    #: 0: the batch is not deduplicated.
    producer_id: int
    producer_epoch: int
    #: Of the first record, modulo 2**32; the records after it count on.
    producer_sequence: int
    size_bytes: int
    #: 0 to 7, of all records.
    priority: int = 0
    #: Of all records: queue groups get them no earlier. 0: at once.
    deliver_at_ms: int = 0
    #: One for each record, empty where it has none; or no items, when no record has one.
    idempotency_keys: tuple[bytes, ...] = ()
    #: A batch of a transaction that is stored again. `producer_id` says which transaction.
    is_transactional: bool = False


Describe: TypeAlias = Callable[[bytes | memoryview], BatchFacts | None]
