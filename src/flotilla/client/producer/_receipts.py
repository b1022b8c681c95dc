"""Receipts of many records: runs of offsets that behave like a list of receipts."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import overload

from flotilla.client.producer._batch import Batch
from flotilla.client.producer.receipt import Receipt


class Receipts(Sequence[Receipt]):
    """One receipt per record, in the order in which the records were given. Each is made on access."""

    __slots__ = ("_ends", "_runs", "_topic", "_topic_ids")

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._runs: list[tuple[int, int, int]] = []
        #: The count of records up to the end of each run.
        self._ends: list[int] = []
        self._topic = ""
        #: Of each run: the topic may be created anew between two of them.
        self._topic_ids: list[int] = []
        end = 0
        for batch in batches:
            self._topic = batch.topic
            end += batch.count
            self._runs.append((batch.partition, batch.base_offset, batch.count))
            self._topic_ids.append(batch.topic_id)
            self._ends.append(end)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """Partition, first offset and count of records that are stored one after the other."""
        return list(self._runs)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, index: int) -> Receipt: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Receipt]: ...

    def __getitem__(self, index: int | slice) -> Receipt | Sequence[Receipt]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(index)
        run = bisect_right(self._ends, position)
        partition, base_offset, count = self._runs[run]
        offset = base_offset + position - (self._ends[run] - count)
        return Receipt(partition, offset, False, self._topic, self._topic_ids[run])

    def __repr__(self) -> str:
        return f"Receipts({len(self)} records in {len(self._runs)} batches)"


def raise_first(batches: Sequence[Batch]) -> None:
    """Raises the error of the first batch that failed, with a note on how many records did not."""
    failed = next((batch for batch in batches if batch.error is not None), None)
    if failed is None or failed.error is None:
        return
    failed.is_observed = True
    stored = sum([batch.count for batch in batches if batch.error is None])
    failed.error.add_note(f"{stored} of {sum([batch.count for batch in batches])} records are stored")
    raise failed.error
