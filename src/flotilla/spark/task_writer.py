"""The writer of one task: sorts rows, cuts them into batches, encodes and sends them."""

import time
from secrets import token_hex
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

from flotilla.client.bulk.batch_sender import BatchSender
from flotilla.client.client import Client
from flotilla.codec.batch.compression import NAMES
from flotilla.spark.encoding import Numbered, encode
from flotilla.spark.options import TRANSACTIONAL, Options
from flotilla.spark.rows import Lane, Pending, Sorter
from flotilla.types.limits import MIB
from flotilla.types.operations import Produce
from flotilla.types.operations.transactions import Stage
from flotilla.types.topics import TRANSACTION_TIMEOUT_MS_MAX

#: A transaction stages up to 256 MiB in a partition; more rows go into another one of the same decision.
_MEMBER_BYTES_MAX: Final = 192 * MIB

_COMPRESSIONS: Final = {name: number for number, name in NAMES.items()}


class TaskWriter:
    def __init__(self, client: Client, options: Options, producer_id: int, task: int) -> None:
        self._client = client
        self._options = options
        self._producer_id = producer_id
        self._sender = BatchSender(client, timeout_ms=options.timeout_ms)
        self._sorter = Sorter(options, self._partition_counts, task)
        self._counts: dict[str, tuple[int, int]] = {}
        self._pending: dict[Lane, Pending] = {}
        #: Sequence of the next record, by topic and partition.
        self._sequences: dict[tuple[str, int], int] = {}
        #: Ids of transactions with the partitions in which each has staged rows. The last one takes more.
        self.members: dict[str, list[tuple[str, int]]] = {}
        self._member = ""
        self._member_bytes = 0
        self._is_transactional = options.delivery_guarantee == TRANSACTIONAL
        self._now_ms = time.time_ns() // 1_000_000

    def add(self, batch: pa.RecordBatch) -> None:
        for lane, rows in self._sorter.sort(batch):
            pending = self._pending.get(lane)
            if pending is None:
                pending = self._pending[lane] = Pending(self._options.batch_bytes)
            for whole in pending.add(rows):
                self._send(lane, whole)

    def finish(self) -> dict[str, list[tuple[str, int]]]:
        """Waits until the brokers have all rows, and returns the transactions to commit."""
        for lane, pending in self._pending.items():
            for rest in pending.rest():
                self._send(lane, rest)
        self._sender.finish()
        return self.members

    def _send(self, lane: Lane, rows: pa.RecordBatch) -> None:
        place = (lane.topic, lane.partition)
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + rows.num_rows
        batch = encode(
            rows,
            priority=lane.priority,
            deliver_at_ms=lane.deliver_at_ms,
            now_ms=self._now_ms,
            compression=_COMPRESSIONS[self._options.compression],
            numbered=Numbered(self._producer_id, sequence),
        )
        if self._is_transactional:
            self._sender.send(
                Stage(*place, self._member_for(place, len(batch)), batch, timeout_ms=TRANSACTION_TIMEOUT_MS_MAX)
            )
        else:
            self._sender.send(Produce(*place, batch))

    def _member_for(self, place: tuple[str, int], size_bytes: int) -> str:
        if not self._member or self._member_bytes + size_bytes > _MEMBER_BYTES_MAX:
            self._member = f"spark-{token_hex(12)}"
            self._member_bytes = 0
            self.members[self._member] = []
        self._member_bytes += size_bytes
        places = self.members[self._member]
        if place not in places:
            places.append(place)
        return self._member

    def _partition_counts(self, topic: str) -> tuple[int, int]:
        counts = self._counts.get(topic)
        if counts is None:
            found = self._client.describe_topic(topic)
            count = len(found.partitions)
            counts = self._counts[topic] = (count, found.key_partitions or count)
        return counts
