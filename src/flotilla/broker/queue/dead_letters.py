"""The move of dead messages from a partition to the dead-letter topic of their group.

Exactly once at every crash point, in three steps: the death is in the source's log and has a number; the message is
produced to the dead-letter topic by a producer of its own, whose id follows from source, group and number, so that a
repetition is recognised there; then the source's log says that it is buried. A new leader of the source goes on where
the last one stopped. A producer is forgotten after a while, so a letter that may have arrived before is looked up in
the dead-letter topic before it is sent again.

Each death is buried by itself. A letter that is refused is passed over, told by `explain`, by a metric and in the log,
and tried again; those behind it go on. When the topic does not answer, all wait. It is created when it is missing.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from flotilla.broker.ports import Cancel, Elsewhere, Outside
from flotilla.broker.queue.delivery import QueueReader
from flotilla.broker.queue.letter_lookup import find_letters
from flotilla.broker.queue.letters import letter_of, producer_of
from flotilla.codec.batch.records import encode_batch
from flotilla.metadata.values import Topic
from flotilla.partition.commands.partition_commands import BuryDeaths, Command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.group import Death
from flotilla.partition.state.machine import PartitionMachine
from flotilla.runtime.observability.logs import get_logger
from flotilla.types.errors import CorruptionError, FlotillaError, InvalidArgumentError, NotFoundError, NotLoadedError
from flotilla.types.ids import Offset
from flotilla.types.limits import MIB
from flotilla.types.operations import CreateTopic, Produce, Reply
from flotilla.types.topics import show_settings

log = get_logger("dead-letters")

#: Dead letters of one group and partition in flight.
MOVE_COUNT_MAX: Final = 64
MOVE_BYTES_MAX: Final = 8 * MIB
RETRY_MS: Final = 1_000
RETRY_MS_MAX: Final = 30_000
#: Refusals of one group that are remembered for explanations.
REFUSED_COUNT_MAX: Final = 1_000
#: Settings that a new dead-letter topic takes from its source.
_INHERITED: Final = (
    "retention_ms",
    "retention_bytes",
    "retention_bytes_hard",
    "retention_messages",
    "payload_bytes_max",
)
#: About one letter, not about the topic: others may still arrive.
_REFUSALS: Final = (InvalidArgumentError, CorruptionError)


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

    def dead_letter_topic(self, group: str) -> str: ...

    def propose(self, command: Command, answered: Callable[[object], None]) -> None: ...

    def when_loaded(self, loaded: Callable[[FlotillaError | None], None]) -> None: ...


class Convoy:
    """The dead letters of one group: where their pass stands, and what stayed behind."""

    __slots__ = (
        "delay_ms",
        "error",
        "is_passing",
        "next_number",
        "refused",
        "refused_count",
        "timer",
        "told",
        "unsure_below",
    )

    def __init__(self, unsure_below: int) -> None:
        #: A pass goes through all deaths in the order of numbers; from here on they are to be sent.
        self.next_number = 0
        #: Deaths with lower numbers may have been sent before: they are looked up first.
        self.unsure_below = unsure_below
        #: False: it waits for the next pass, or for the topic.
        self.is_passing = True
        #: The last delay of a retry.
        self.delay_ms = 0
        #: Why the topic takes nothing; empty: it does.
        self.error = ""
        #: Of the last pass or this one: refused letters by number, with the reason, and how many there are.
        self.refused: dict[int, str] = {}
        self.refused_count = 0
        #: Ends the wait for the next pass.
        self.timer: Cancel | None = None
        #: What the log of the node says of it already.
        self.told: tuple[int, str] = (0, "")

    def refuse(self, number: int, reason: str) -> None:
        self.refused_count += 1
        if len(self.refused) < REFUSED_COUNT_MAX:
            self.refused[number] = reason


class _Shipment:
    """Deaths of one group that are sent together."""

    __slots__ = ("arrived", "deaths", "error", "left")

    def __init__(self, deaths: list[Death]) -> None:
        self.deaths = deaths
        self.left = len(deaths)
        #: By number.
        self.arrived: set[int] = set()
        #: Not a refusal of one letter.
        self.error: FlotillaError | None = None

    def runs(self) -> list[tuple[int, int]]:
        """Numbers that have arrived, as runs."""
        runs: list[tuple[int, int]] = []
        for number in sorted(self.arrived):
            if runs and runs[-1][1] == number:
                runs[-1] = (runs[-1][0], number + 1)
            else:
                runs.append((number, number + 1))
        return runs


class DeadLetters:
    """The dead letters of one partition, for one term of its leader."""

    def __init__(self, source: DeathSource, elsewhere: Elsewhere, outside: Outside) -> None:
        self._source = source
        self._elsewhere = elsewhere
        self._outside = outside
        #: Of groups with dead letters that are not buried.
        self._convoys: dict[str, Convoy] = {}

    def look(self) -> None:
        """A term begins: continues what the last leader did not finish."""
        for name, group in self._source.machine.groups.items():
            if group.dying:
                self._convoys[name] = Convoy(group.next_death)
                self._send(name)

    @property
    def is_moving(self) -> bool:
        """Some are in flight, not waiting for a retry."""
        return any(convoy.is_passing for convoy in self._convoys.values())

    def move(self, group: str) -> None:
        """Messages of the group have died."""
        convoy = self._convoys.get(group)
        if convoy is None:
            self._convoys[group] = Convoy(0)
            self._send(group)
        elif not convoy.is_passing and not convoy.error:
            # Only refused letters are left: new ones need not wait for them.
            if convoy.timer is not None:
                convoy.timer()
            convoy.is_passing = True
            self._send(group)

    def refused_count(self, group: str) -> int:
        """Dead messages of the group whose letters were refused."""
        convoy = self._convoys.get(group)
        return 0 if convoy is None else convoy.refused_count

    def obstacle(self, group: str, offset: Offset | None = None) -> str:
        """Why a dead message of the group is not buried, or any of them; empty: nothing is in the way."""
        convoy = self._convoys.get(group)
        state = self._source.machine.groups.get(group)
        if convoy is None or state is None:
            return ""
        if offset is None:
            return next(iter(convoy.refused.values()), convoy.error)
        death = state.death_of(offset)
        return "" if death is None else convoy.refused.get(death.number, convoy.error)

    def _send(self, group: str) -> None:
        source = self._source
        convoy = self._convoys.get(group)
        if source.is_ended or convoy is None:
            return
        if not source.leader.has_group(group):
            del self._convoys[group]
            return
        deaths = source.leader.deaths(group, MOVE_COUNT_MAX, convoy.next_number)
        if not deaths:
            self._end_pass(group, convoy)
            return
        if deaths[0].number < convoy.unsure_below:
            self._look_up(group, convoy, [death for death in deaths if death.number < convoy.unsure_below])
        else:
            self._ship(group, convoy, deaths)

    def _end_pass(self, group: str, convoy: Convoy) -> None:
        if not convoy.refused_count:
            del self._convoys[group]
            return
        self._tell(group, convoy, next(iter(convoy.refused.values())))
        self._retry(group, convoy, is_new_pass=True)

    def _tell(self, group: str, convoy: Convoy, reason: str) -> None:
        """Once for each reason: the metric says how long it lasts."""
        if convoy.told == (convoy.refused_count, reason):
            return
        convoy.told = (convoy.refused_count, reason)
        log.warning(
            "dead letters were refused" if convoy.refused_count else "dead letters wait",
            topic=self._source.topic.name,
            partition=self._source.number,
            group=group,
            to=self._source.dead_letter_topic(group),
            refused=convoy.refused_count,
            reason=reason,
        )

    def _look_up(self, group: str, convoy: Convoy, deaths: list[Death]) -> None:
        """Finds letters that an earlier attempt has stored, and buries those."""
        born = self._source.machine.groups[group].born
        wanted = {self._producer(group, born, death): death.number for death in deaths}

        def found(result: set[int] | FlotillaError) -> None:
            if self._source.is_ended:
                return
            if isinstance(result, FlotillaError) and not isinstance(result, NotFoundError):
                self._stall(group, convoy, result)
                return
            shipment = _Shipment(deaths)
            shipment.arrived = set() if isinstance(result, FlotillaError) else {wanted[one] for one in result}
            left = [death for death in deaths if death.number not in shipment.arrived]
            self._bury(group, shipment, lambda: self._ship(group, convoy, left) if left else self._send(group))

        since_ms = min(death.died_ms for death in deaths)
        find_letters(self._elsewhere, self._source.dead_letter_topic(group), since_ms, set(wanted), found)

    def _producer(self, group: str, born: int, death: Death) -> int:
        return producer_of(self._source.topic, self._source.number, group, born, death.number)

    def _ship(self, group: str, convoy: Convoy, deaths: list[Death]) -> None:
        if group not in self._source.machine.groups:
            self._send(group)
            return
        try:
            letters, deaths = self._letters(group, convoy, deaths)
        except NotLoadedError:
            self._source.when_loaded(
                lambda error: self._send(group) if error is None else self._stall(group, convoy, error)
            )
            return
        if not letters:
            self._send(group)
            return
        shipment = _Shipment(deaths)
        topic = self._source.dead_letter_topic(group)
        for death, letter in zip(deaths, letters, strict=True):
            arrived = partial(self._arrived, group, convoy, shipment, death.number)
            self._elsewhere.ask(Produce(topic, 0, letter), arrived)

    def _letters(self, group: str, convoy: Convoy, deaths: list[Death]) -> tuple[list[bytes], list[Death]]:
        """One batch for each death, up to MOVE_BYTES_MAX or to one that is not in memory.

        Moves the pass behind those that cannot be read. Raises NotLoadedError if the first one is not in memory.
        """
        source = self._source
        born = source.machine.groups[group].born
        letters: list[bytes] = []
        sent: list[Death] = []
        size_bytes = 0
        for death in deaths:
            # It is in the log, trimmed or not: retention keeps dying messages.
            try:
                record = source.reader.record(death.offset)
            except NotLoadedError:
                if not letters:
                    raise
                break
            except FlotillaError as error:
                convoy.refuse(death.number, f"the message cannot be read: {error}")
                if not letters:
                    convoy.next_number = death.number + 1
                continue
            letter = letter_of(record, source.topic, source.number, group, death)
            letters.append(encode_batch([letter], producer_id=self._producer(group, born, death)))
            sent.append(death)
            size_bytes += len(letters[-1])
            if size_bytes >= MOVE_BYTES_MAX:
                break
        return letters, sent

    def _arrived(
        self, group: str, convoy: Convoy, shipment: _Shipment, number: int, result: Reply | FlotillaError
    ) -> None:
        if isinstance(result, _REFUSALS):
            convoy.refuse(number, str(result))
        elif isinstance(result, FlotillaError):
            if shipment.error is None or isinstance(shipment.error, NotFoundError):
                shipment.error = result
        else:
            shipment.arrived.add(number)
        shipment.left -= 1
        if not shipment.left and not self._source.is_ended:
            self._bury(group, shipment, partial(self._shipped, group, convoy, shipment))

    def _shipped(self, group: str, convoy: Convoy, shipment: _Shipment) -> None:
        """Every letter of the shipment was answered, and those that arrived are buried."""
        if shipment.error is None:
            convoy.next_number = shipment.deaths[-1].number + 1
            convoy.error = ""
            if not convoy.refused_count:
                convoy.delay_ms = 0
            self._send(group)
            return
        if isinstance(shipment.error, NotFoundError):
            self._create_topic(group, convoy)
        else:
            convoy.unsure_below = max(convoy.unsure_below, shipment.deaths[-1].number + 1)
            self._stall(group, convoy, shipment.error)

    def _bury(self, group: str, shipment: _Shipment, buried: Callable[[], None]) -> None:
        """Calls `buried` when the log says that those that arrived are buried."""
        runs = shipment.runs()
        left = len(runs)
        errors: list[FlotillaError] = []

        def answered(result: object) -> None:
            nonlocal left
            left -= 1
            if isinstance(result, FlotillaError):
                errors.append(result)
            if left or self._source.is_ended:
                return
            convoy = self._convoys.get(group)
            if errors and convoy is not None:
                convoy.unsure_below = max(convoy.unsure_below, shipment.deaths[-1].number + 1)
                self._stall(group, convoy, errors[0])
            else:
                buried()

        if not runs:
            buried()
            return

        def propose() -> None:
            for first, end in [] if self._source.is_ended else runs:
                try:
                    self._source.propose(BuryDeaths(group, end, self._source.now_ms(), first), answered)
                except FlotillaError:
                    # The group was deleted meanwhile, and its dead letters with it.
                    self._convoys.pop(group, None)
                    return

        self._outside.after_hold(propose)

    def _create_topic(self, group: str, convoy: Convoy) -> None:
        topic = self._source.topic
        shown = show_settings(topic.settings)
        width = len(topic.partitions[0].replicas)
        request = CreateTopic(
            self._source.dead_letter_topic(group),
            partitions=1,
            # Of a topic that lacks brokers itself the factor would be refused; the default is filled up like the topic.
            replication_factor=topic.replication_factor if width >= topic.replication_factor else 0,
            settings={**{name: shown[name] for name in _INHERITED}, "holds_dead_letters": "1"},
        )

        def answered(result: Reply | FlotillaError) -> None:
            if isinstance(result, FlotillaError):
                # Also when it exists already: then the node that was asked has not heard of it yet.
                self._stall(group, convoy, result)
            else:
                self._send(group)

        self._elsewhere.ask(request, answered)

    def _stall(self, group: str, convoy: Convoy, error: FlotillaError) -> None:
        """The topic takes nothing now: all letters wait."""
        if self._source.is_ended or self._convoys.get(group) is not convoy:
            return
        convoy.error = str(error)
        if convoy.delay_ms >= RETRY_MS_MAX // 2:
            self._tell(group, convoy, convoy.error)
        self._retry(group, convoy, is_new_pass=False)

    def _retry(self, group: str, convoy: Convoy, *, is_new_pass: bool) -> None:
        """Goes on after a delay, or begins again with what was refused."""
        convoy.delay_ms = min(max(2 * convoy.delay_ms, RETRY_MS), RETRY_MS_MAX)
        convoy.is_passing = False

        def begin() -> None:
            convoy.is_passing = True
            if is_new_pass:
                convoy.next_number = 0
                convoy.refused.clear()
                convoy.refused_count = 0
            self._send(group)

        convoy.timer = self._outside.later(convoy.delay_ms, begin)
