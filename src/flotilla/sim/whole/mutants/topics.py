"""Deliberate bugs about the identity of a topic: lives of one name that are taken for each other, growth unheard of."""

from typing import Any, Final

from flotilla.broker.catalog import Catalog
from flotilla.broker.queue.groups import PartitionQueue
from flotilla.client.admin.dead_letter import DeadLetter
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.producer._record_buffer import RecordBuffer
from flotilla.client.stream._core import StreamMember
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.dead_letters import redrive_key
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import TopicInfo
from flotilla.types.operations.queue import Start
from flotilla.types.records import Record


def _accept_any(original: Any) -> Any:
    return lambda self, name, topic_id: None


def _accept_any_count(original: Any) -> Any:
    return lambda self, name, known: None


def _redrive_by_name(original: Any) -> Any:
    def record(self: AsyncDeadLetters, letter: DeadLetter, topic_id: int) -> Record:
        found: Record = original(self, letter, topic_id)
        place = f"{self.topic}/{letter.partition}/{letter.offset}"
        return found._replace(idempotency_key=redrive_key(letter.redriven + 1, place))

    return record


def _open_as_asked(original: Any) -> Any:
    def open_by_age(self: PartitionQueue, group: str, start: Start, is_older: bool | FlotillaError) -> None:
        original(self, group, start, is_older=False)

    return open_by_age


def _begin_as_asked(original: Any) -> Any:
    def claimed(self: StreamMember, part: Any, result: Any) -> None:
        self._first_partitions = 0
        original(self, part, result)

    return claimed


def _spread_anew(original: Any) -> Any:
    """Over all partitions that there are."""

    def adapt(self: RecordBuffer, topic: TopicInfo) -> None:
        original(self, topic)
        self.key_partitions = self.partitions

    return adapt


MUTANTS: Final = (
    WholeMutant(
        "any-life",
        "requests about an earlier topic of the name are taken for the present one",
        ((Catalog, "check_topic", _accept_any),),
        ("replaced",),
        None,
    ),
    WholeMutant(
        "any-count",
        "a producer never hears that its topic grew",
        ((Catalog, "check_partition_count", _accept_any_count),),
        ("replaced",),
    ),
    WholeMutant(
        "redrive-by-name",
        "letters of two topics of one name are taken for each other",
        ((AsyncDeadLetters, "_record", _redrive_by_name),),
        ("replaced",),
        None,
        seed=3,
    ),
    WholeMutant(
        "open-as-asked",
        "a queue group that begins at the end passes over what a new partition holds",
        ((PartitionQueue, "_open_by_age", _open_as_asked),),
        ("replaced",),
    ),
    WholeMutant(
        "begin-as-asked",
        "a stream group that begins at the end passes over what a new partition holds",
        ((StreamMember, "_claimed", _begin_as_asked),),
        ("replaced",),
        seed=4,
    ),
    WholeMutant(
        "spread-anew",
        "keys move when their topic grows",
        ((RecordBuffer, "adapt", _spread_anew),),
        ("replaced",),
    ),
)
