"""Deliberate bugs of stream groups and readers: silent members that stay, positions that run ahead, doubled records."""

from collections.abc import Mapping
from typing import Any, Final

from flotilla.broker.stream.coordinator import StreamCoordinator
from flotilla.client.reader._core import ReaderCore, _Part
from flotilla.client.stream._progress import Mark, StreamProgress
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.ids import Offset


def _never_check(original: Any) -> Any:
    return lambda self: None


def _commit_what_is_fetched(original: Any) -> Any:
    def uncommitted(self: StreamProgress, positions: Mapping[int, Offset]) -> dict[int, Mark]:
        fetched = {number: self.reader._parts[number].fetch_offset for number in positions}
        marks: dict[int, Mark] = original(self, fetched)
        return marks

    return uncommitted


def _take_old_answers(original: Any) -> Any:
    def collect(self: ReaderCore) -> None:
        arrived = list(self._arrived)
        self._arrived.clear()
        self._arrived.extend([(part, part.generation, result, is_followed) for part, _, result, is_followed in arrived])
        original(self)

    return collect


def _read_whole_batches(original: Any) -> Any:
    def open_batch(self: ReaderCore, part: _Part, batch: bytes | memoryview) -> bool:
        found: bool = original(self, part, batch)
        self._cursor = 0
        return found

    return open_batch


MUTANTS: Final = (
    WholeMutant(
        "silent-stay",
        "a member that is gone keeps its partitions",
        ((StreamCoordinator, "check", _never_check),),
        ("stream",),
    ),
    WholeMutant(
        "commit-fetched",
        "messages count as handled before the application gets them",
        ((StreamProgress, "_uncommitted", _commit_what_is_fetched),),
        ("stream",),
    ),
    WholeMutant(
        "old-answers",
        "a reader takes answers to questions that it gave up",
        ((ReaderCore, "_collect", _take_old_answers),),
        ("stream",),
        ("slow-path", "isolate", "cut", "pause"),
        60,
    ),
    WholeMutant(
        "whole-batches",
        "a reader begins each batch at its first record",
        ((ReaderCore, "_open", _read_whole_batches),),
        ("stream",),
        seed=2,
    ),
)
