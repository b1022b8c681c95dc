"""The move of dead messages from a partition to the dead-letter topic of their group.

Exactly once at every crash point, in three steps: the death is in the source's log and has a number; the message is
produced to the dead-letter topic by a producer of its own, whose id follows from source, group and number, so that a
repetition is recognised there; then the source's log says that it is buried. A new leader of the source goes on where
the last one stopped. Each death has its own producer: a shared one that was silent for a day would be forgotten, and
would have to begin again at sequence 0.

The topic is created when it is missing. A dead letter stays there until an operator deals with it: it may fail any
number of times, and only a reject drops it.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Final, Protocol

from flotilla.broker.ports import Elsewhere, Outside
from flotilla.broker.queue.delivery import QueueReader
from flotilla.codec.batch.records import encode_batch
from flotilla.metadata.values import Topic
from flotilla.partition.commands.partition_commands import BuryDeaths, Command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.group import Death
from flotilla.partition.state.machine import PartitionMachine
from flotilla.types.dead_letters import (
    HEADER_PREFIX,
    MAX_DELIVERIES_HEADER,
    REDRIVE_GROUP,
    TTL_HEADER,
    dead_letter_topic,
    is_dead_letter_topic,
)
from flotilla.types.errors import FlotillaError, NotFoundError, NotLoadedError
from flotilla.types.group_settings import GroupRules
from flotilla.types.limits import MIB, RECORD_HEADER_BYTES_MAX, RECORD_HEADER_COUNT_MAX
from flotilla.types.operations import CreateTopic, Produce, Reply
from flotilla.types.records import Headers, Record
from flotilla.types.topics import show_settings

#: Dead letters of one group and partition in flight.
MOVE_COUNT_MAX: Final = 64
MOVE_BYTES_MAX: Final = 8 * MIB
RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 30_000
#: Ids that clients draw do not have it.
_PRODUCER_BIT: Final = 1 << 63
#: Settings that a new dead-letter topic takes from its source.
_INHERITED: Final = ("retention_ms", "retention_bytes", "retention_messages", "payload_bytes_max")


def rules_of(topic: Topic, group: str) -> GroupRules:
    """The rules in force for a group.

    Dead letters have no dead letters, whatever is set, so their attempts are unlimited. A redrive fails because it was
    stopped, not because of the message: its next attempt need not wait.
    """
    rules = topic.rules_of(group)
    if not is_dead_letter_topic(topic.name):
        return rules
    rules = replace(rules, dead_letters=0, max_deliveries=0)
    return replace(rules, nack_backoff_ms=0) if group == REDRIVE_GROUP else rules


class DeathSource(Protocol):
    """The partition that dead letters come from."""

    topic: Topic

    @property
    def number(self) -> int: ...

    @property
    def machine(self) -> PartitionMachine: ...

    @property
    def leader(self) -> QueueLeader: ...

    @property
    def reader(self) -> QueueReader: ...

    @property
    def is_ended(self) -> bool: ...

    def now_ms(self) -> int: ...

    def propose(self, command: Command, answered: Callable[[object], None]) -> None: ...

    def when_loaded(self, loaded: Callable[[FlotillaError | None], None]) -> None: ...


class _Shipment:
    """Deaths of one group that are moved together."""

    __slots__ = ("arrived", "deaths", "error", "left")

    def __init__(self, deaths: list[Death]) -> None:
        self.deaths = deaths
        self.left = len(deaths)
        #: By number.
        self.arrived: set[int] = set()
        self.error: FlotillaError | None = None

    def below_number(self) -> int:
        """Everything with a lower number has arrived."""
        number = self.deaths[0].number
        while number in self.arrived:
            number += 1
        return number


class DeadLetters:
    """The dead letters of one partition, for one term of its leader."""

    def __init__(self, source: DeathSource, elsewhere: Elsewhere, outside: Outside) -> None:
        self._source = source
        self._elsewhere = elsewhere
        self._outside = outside
        #: Groups with dead letters in flight or waiting for a retry, with the last delay; 0: in flight.
        self._moving: dict[str, int] = {}

    def look(self) -> None:
        """A term begins: continues what the last leader did not finish."""
        for name, group in self._source.machine.groups.items():
            if group.dying:
                self.move(name)

    @property
    def is_moving(self) -> bool:
        """Some are in flight, not waiting for a retry."""
        return 0 in self._moving.values()

    def move(self, group: str) -> None:
        """Messages of the group have died."""
        if group not in self._moving:
            self._moving[group] = 0
            self._send(group)

    def _send(self, group: str) -> None:
        source = self._source
        if source.is_ended:
            return
        deaths = source.leader.deaths(group, MOVE_COUNT_MAX) if source.leader.has_group(group) else []
        if not deaths:
            del self._moving[group]
            return
        try:
            letters = self._letters(group, deaths)
        except NotLoadedError:
            source.when_loaded(lambda error: self._send(group) if error is None else self._retry(group))
            return
        except FlotillaError:
            self._retry(group)
            return
        shipment = _Shipment(deaths[: len(letters)])
        topic = dead_letter_topic(group, source.topic.name)
        for death, letter in zip(deaths, letters, strict=False):
            request = Produce(topic, 0, letter)
            self._elsewhere.ask(request, partial(self._arrived, group, shipment, death.number))

    def _letters(self, group: str, deaths: list[Death]) -> list[bytes]:
        """One batch for each death, up to MOVE_BYTES_MAX or to one that is not in memory.

        Raises CorruptionError; NotLoadedError if that is the first one.
        """
        source = self._source
        born = source.machine.groups[group].born
        letters: list[bytes] = []
        size_bytes = 0
        for death in deaths:
            # It is in the log, trimmed or not: retention keeps dying messages.
            try:
                record = source.reader.record(death.offset)
            except NotLoadedError:
                if not letters:
                    raise
                break
            letter = _letter(record, source.topic, source.number, group, death)
            letters.append(encode_batch([letter], producer_id=_producer_id(source, group, born, death.number)))
            size_bytes += len(letters[-1])
            if size_bytes >= MOVE_BYTES_MAX:
                break
        return letters

    def _arrived(self, group: str, shipment: _Shipment, number: int, result: Reply | FlotillaError) -> None:
        if isinstance(result, FlotillaError):
            shipment.error = result
        else:
            shipment.arrived.add(number)
        shipment.left -= 1
        if shipment.left or self._source.is_ended:
            return
        below_number = shipment.below_number()
        if below_number > shipment.deaths[0].number:
            self._bury(group, below_number)
        elif isinstance(shipment.error, NotFoundError):
            self._create_topic(group)
        else:
            self._retry(group)

    def _bury(self, group: str, below_number: int) -> None:
        def answered(result: object) -> None:
            if isinstance(result, FlotillaError):
                self._retry(group)
            else:
                self._moving[group] = 0
                self._send(group)

        try:
            self._source.propose(BuryDeaths(group, below_number, self._source.now_ms()), answered)
        except FlotillaError:
            # The group was deleted meanwhile, and its dead letters with it.
            del self._moving[group]

    def _create_topic(self, group: str) -> None:
        topic = self._source.topic
        shown = show_settings(topic.settings)
        width = len(topic.partitions[0].replicas)
        request = CreateTopic(
            dead_letter_topic(group, topic.name),
            partitions=1,
            # Of a topic that lacks brokers itself the factor would be refused; the default is filled up like the topic.
            replication_factor=topic.replication_factor if width >= topic.replication_factor else 0,
            settings={name: shown[name] for name in _INHERITED},
        )

        def answered(result: Reply | FlotillaError) -> None:
            if isinstance(result, FlotillaError):
                # Also when it exists already: then the node that was asked has not heard of it yet.
                self._retry(group)
            else:
                self._send(group)

        self._elsewhere.ask(request, answered)

    def _retry(self, group: str) -> None:
        if self._source.is_ended:
            return
        delay_ms = min(max(2 * self._moving[group], RETRY_MS), RETRY_MS_MAX)
        self._moving[group] = delay_ms
        self._outside.later(delay_ms, partial(self._send, group))


def _producer_id(source: DeathSource, group: str, born: int, number: int) -> int:
    """The same for the same death, at every leader; another one for every other death."""
    name = f"{source.topic.topic_id}/{source.number}/{group}/{born}/{number}"
    return _PRODUCER_BIT | int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little") >> 1


def _letter(record: Record, topic: Topic, partition: int, group: str, death: Death) -> Record:
    """The message with its hidetails in headers. Its time is that of its death, so retention counts from then."""
    details = {
        HEADER_PREFIX + "reason": death.reason,
        HEADER_PREFIX + "attempts": str(death.attempts),
        HEADER_PREFIX + "topic": topic.name,
        HEADER_PREFIX + "partition": str(partition),
        HEADER_PREFIX + "offset": str(death.offset),
        HEADER_PREFIX + "group": group,
        HEADER_PREFIX + "first-time": str(record.timestamp_ms),
        HEADER_PREFIX + "died-time": str(death.died_ms),
    }
    if record.max_deliveries:
        details[MAX_DELIVERIES_HEADER] = str(record.max_deliveries)
    if record.ttl_ms:
        details[TTL_HEADER] = str(record.ttl_ms)
    added = tuple((name, text.encode()) for name, text in details.items())
    return Record(
        payload=record.payload,
        key=record.key,
        headers=_fitting(record.headers, added),
        timestamp_ms=death.died_ms,
        priority=record.priority,
        content_type=record.content_type,
    )


def _fitting(own: Headers, added: Headers) -> Headers:
    """Both, without the last of its own headers when that exceeds the limits of a record."""
    room_count = RECORD_HEADER_COUNT_MAX - len(added)
    room_bytes = RECORD_HEADER_BYTES_MAX - _size_bytes(added)
    # A redriven message that dies again keeps the headers of its last death only.
    kept = [header for header in own if not header[0].startswith(HEADER_PREFIX)][:room_count]
    while kept and _size_bytes(kept) > room_bytes:
        kept.pop()
    return (*kept, *added)


def _size_bytes(headers: list[tuple[str, bytes]] | Headers) -> int:
    return sum([len(name.encode()) + len(value) for name, value in headers])
