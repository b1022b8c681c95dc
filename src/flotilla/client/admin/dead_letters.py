"""The dead letters of one group of one topic: listed, sent again, or discarded.

The dead-letter topic is an ordinary topic, and its queue group `flotilla.redrive` works it off. Groups that share one
have a group of their own for that (`types/dead_letters`), which settles the letters of others without touching them.
So an interrupted redrive continues where it was, two runs share the work, and nothing is done twice. A redrive is an
idempotent produce to the topic of origin, then an acknowledgement. Letters that the filter does not match, and those
that were redriven too often, stay leased until the end of the run, so that they do not come again, and are released
then. A run that is cut short loses nothing: a dead letter never fails for the last time (broker/queue/dead_letters).

Listing changes nothing: it reads the topic, and asks the group what it has settled.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, Unpack

from flotilla.client._blocking import BlockingShell, Run, blocking
from flotilla.client.admin.dead_letter import DeadLetter, DeadLetterFilter, is_meant, read_letter
from flotilla.client.admin.group_info import GroupInfo
from flotilla.client.producer.receipt import Receipt
from flotilla.client.queue._leases import renewed_anyway
from flotilla.client.queue.aio import AsyncQueueConsumer, AsyncQueueMessage
from flotilla.client.reader.message import Message
from flotilla.types.dead_letters import dead_letter_topic, redrive_group, redrive_key
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.group_settings import GROUP_SETTINGS
from flotilla.types.ids import Offset
from flotilla.types.operations import TopicInfo
from flotilla.types.operations.queue import Explanation
from flotilla.types.records import Record

#: A method called `list` hides the type in the methods after it.
Letters: TypeAlias = list[DeadLetter]
_Messages: TypeAlias = list[AsyncQueueMessage]
_Chosen: TypeAlias = list[tuple[AsyncQueueMessage, DeadLetter]]
#: Produces them again, to their topics.
Send: TypeAlias = Callable[[_Chosen], Coroutine[Any, Any, None]]

#: Redrives of a message before another one must be forced: it would only die again.
REDRIVEN_MAX = 3
#: Messages handled in one step.
_STEP_MESSAGES = 100
_PEEK_MESSAGES = 100
#: Letters that a run passes over stay leased for as long as a broker allows.
_LEASE_MS_MAX = GROUP_SETTINGS["lease_ms_max"].kind.maximum
#: How long a poll waits for letters that should be there.
_END_MS = 10_000
#: Empty polls in a row, although letters are there, before the run ends: another consumer has them leased.
_EMPTY_POLLS_MAX = 3
#: Delivery states of letters that are still to be handled.
_OPEN_STATES = ("delayed", "ready", "blocked", "leased", "retrying")


@dataclass(slots=True)
class Redriven:
    """The counts of a redrive or a purge, and of a dry run, which changes nothing."""

    #: Redriven, or purged.
    done: int = 0
    #: Matched by the filter, but redriven too often before.
    refused: int = 0
    #: Not matched by the filter.
    skipped: int = 0


#: Called after each step with the counts so far.
Progress: TypeAlias = Callable[[Redriven], object]


class _Client(Protocol):
    """The methods of an AsyncClient that dead letters need."""

    async def describe_topic(self, topic: str, *, timeout_ms: int) -> TopicInfo: ...

    async def describe_group(self, topic: str, group: str, *, timeout_ms: int) -> GroupInfo: ...

    async def alter_group(self, topic: str, group: str, *, timeout_ms: int) -> dict[str, str]: ...

    async def peek(
        self, topic: str, partition: int, *, offset: Offset | None, max_messages: int, timeout_ms: int
    ) -> Sequence[Message]: ...

    async def explain(
        self, topic: str, group: str, partition: int, offset: Offset, *, history: bool, timeout_ms: int
    ) -> Explanation: ...

    async def produce_many(self, topic: str, payloads: Sequence[Record], *, timeout_ms: int) -> Sequence[Receipt]: ...

    @property
    def queue(self) -> Callable[..., AsyncQueueConsumer]: ...


class AsyncDeadLetters:
    """Made by `AsyncClient.dead_letters`."""

    def __init__(self, client: _Client, topic: str, group: str, timeout_ms: int) -> None:
        self._client = client
        self.origin = topic
        self.group = group
        self._topic = dead_letter_topic(group, topic)
        self._timeout_ms = timeout_ms

    @property
    def topic(self) -> str:
        """The topic in which they are: as the group's setting says, which the first call asks for."""
        return self._topic

    async def _find_topic(self) -> str:
        """The group that redrives the letters, in `topic`, which is known from here on."""
        try:
            settings = await self._client.alter_group(self.origin, self.group, timeout_ms=self._timeout_ms)
        except NotFoundError:
            # The topic was deleted, and the settings with it; its letters may be there.
            settings = {}
        self._topic = settings.get("dead_letter_topic") or dead_letter_topic(self.group, self.origin)
        self._check_rights()
        return redrive_group(self._topic, self.group, self.origin)

    def _check_rights(self) -> None:
        """Raises the error that refuses the next step, once the topic is known. Brokers refuse a client themselves."""

    def _is_own(self, letter: DeadLetter) -> bool:
        """Also of a message that someone put into the topic by hand."""
        return (letter.topic or self.origin) == self.origin and (letter.group or self.group) == self.group

    async def list(self, limit: int = 100, **wanted: Unpack[DeadLetterFilter]) -> Letters:
        """The oldest dead letters of each partition that are not redriven or purged; [] without such a topic."""
        found: Letters = []
        redriver = await self._find_topic()
        try:
            described = await self._client.describe_topic(self._topic, timeout_ms=self._timeout_ms)
        except NotFoundError:
            return found
        for part in described.partitions:
            if wanted.get("partition", part.number) == part.number:
                found += await self._list_partition(redriver, part.number, limit - len(found), wanted)
        return found

    async def peek(self, partition: int, offset: Offset) -> DeadLetter:
        """One dead letter, also after a redrive or a purge. Raises NotFoundError."""
        await self._find_topic()
        found = await self._client.peek(
            self._topic, partition, offset=offset, max_messages=1, timeout_ms=self._timeout_ms
        )
        if not found or found[0].offset != offset or not self._is_own(read_letter(found[0])):
            raise NotFoundError(f"there is no dead letter at offset {offset} in partition {partition} of {self._topic}")
        return read_letter(found[0])

    async def redrive(
        self,
        *,
        limit: int | None = None,
        dry_run: bool = False,
        rate_per_second: float | None = None,
        force: bool = False,
        progress: Progress | None = None,
        **wanted: Unpack[DeadLetterFilter],
    ) -> Redriven:
        """Redrives dead letters to their topic, with all their fields; every group gets them.

        Their time to live begins anew. A message that was redriven three times stays, unless `force` is set.
        """
        run = LettersRun(limit, rate_per_second, progress, wanted, REDRIVEN_MAX if not force else None)
        return await self._dry_run(run) if dry_run else await self._work(run, self._send_again)

    async def purge(
        self,
        *,
        limit: int | None = None,
        dry_run: bool = False,
        rate_per_second: float | None = None,
        progress: Progress | None = None,
        **wanted: Unpack[DeadLetterFilter],
    ) -> Redriven:
        """Discards dead letters: `list` omits them, and retention removes them."""
        run = LettersRun(limit, rate_per_second, progress, wanted, None)
        return await self._dry_run(run) if dry_run else await self._work(run, None)

    # Listing.

    async def _list_partition(self, redriver: str, number: int, limit: int, wanted: DeadLetterFilter) -> Letters:
        position = wanted.get("offset")
        try:
            info = await self._client.describe_group(self._topic, redriver, timeout_ms=self._timeout_ms)
            part = info.partitions.get(number)
        except NotFoundError:
            part = None
        if part is not None and position is None:
            position = part.floor
        found: Letters = []
        while len(found) < limit:
            messages = await self._client.peek(
                self._topic, number, offset=position, max_messages=_PEEK_MESSAGES, timeout_ms=self._timeout_ms
            )
            letters = [
                letter for letter in map(read_letter, messages) if self._is_own(letter) and is_meant(letter, wanted)
            ]
            if part is not None:
                letters = await self._unsettled(redriver, letters)
            found += letters
            if len(messages) < _PEEK_MESSAGES or "offset" in wanted:
                break
            position = messages[-1].offset + 1
        return found[:limit]

    async def _unsettled(self, redriver: str, letters: Letters) -> Letters:
        states = await asyncio.gather(
            *[
                self._client.explain(
                    self._topic,
                    redriver,
                    letter.partition,
                    letter.offset,
                    history=False,
                    timeout_ms=self._timeout_ms,
                )
                for letter in letters
            ]
        )
        return [letter for letter, found in zip(letters, states, strict=True) if found.state in _OPEN_STATES]

    async def _dry_run(self, run: "LettersRun") -> Redriven:
        for letter in await self.list(_EVERY, **run.wanted):
            run.judge(letter)
        run.report()
        return run.result

    # Working off.

    async def _work(self, run: "LettersRun", send: Send | None) -> Redriven:
        redriver = await self._find_topic()
        consumer = self._client.queue(
            self._topic, group=redriver, lease_ms_max=_LEASE_MS_MAX, timeout_ms=self._timeout_ms
        )
        async with consumer:
            empty_polls = 0
            while not run.is_over and empty_polls < _EMPTY_POLLS_MAX:
                messages = await consumer.poll(run.step_messages, wait_ms=_END_MS if empty_polls else 0)
                if messages:
                    empty_polls = 0
                    await self._step(consumer, run, messages, send)
                    await run.pace()
                elif await self._has_more(redriver):
                    empty_polls += 1
                else:
                    break
        return run.result

    async def _has_more(self, redriver: str) -> bool:
        """Whether letters are left that a poll did not return: a new leader delivers nothing at first."""
        try:
            info = await self._client.describe_group(self._topic, redriver, timeout_ms=self._timeout_ms)
        except NotFoundError:
            # No partition knows the group yet: the poll did not wait for that.
            return True
        return info.ready > 0

    async def _step(
        self,
        consumer: AsyncQueueConsumer,
        run: "LettersRun",
        messages: _Messages,
        send: Send | None,
    ) -> None:
        """Handles one step. Letters that are passed over stay leased until the consumer is closed."""
        self._check_rights()
        own: list[tuple[AsyncQueueMessage, DeadLetter]] = []
        foreign: _Messages = []
        for message in messages:
            # Without their messages, which may be large.
            message._lease.dropped = renewed_anyway
            letter = read_letter(message)
            if self._is_own(letter):
                own.append((message, letter))
            else:
                foreign.append(message)
        chosen = [pair for pair in own if run.judge(pair[1])]
        if chosen and send is not None:
            await send(chosen)
        await consumer.ack([*[message for message, _ in chosen], *foreign])
        run.report()

    async def _send_again(self, chosen: _Chosen) -> None:
        by_topic: dict[str, list[Record]] = {}
        for message, letter in chosen:
            record = self._record(letter, message._lease.topic_id)
            by_topic.setdefault(letter.topic or self.origin, []).append(record)
        for topic, records in by_topic.items():
            await self._client.produce_many(topic, records, timeout_ms=self._timeout_ms)

    def _record(self, letter: DeadLetter, topic_id: int) -> Record:
        return Record(
            letter.payload,
            letter.key,
            letter.headers,
            priority=letter.priority,
            content_type=letter.content_type,
            # Its time to live starts again: a redriven message is wanted, however old it is.
            ttl_ms=letter.ttl_ms,
            max_deliveries=letter.max_deliveries,
            # By the id of the dead-letter topic: in the next one of its name, other letters have these offsets.
            idempotency_key=redrive_key(letter.redriven + 1, f"{topic_id}/{letter.partition}/{letter.offset}"),
        )


_EVERY = 2**31


class LettersRun:
    """One run over the dead letters: its filter, its counts and its rate."""

    def __init__(
        self,
        limit: int | None,
        rate_per_second: float | None,
        progress: Progress | None,
        wanted: DeadLetterFilter,
        redriven_max: int | None,
    ) -> None:
        if limit is not None and limit < 0:
            raise InvalidArgumentError("limit is at least 0")
        if rate_per_second is not None and rate_per_second <= 0:
            raise InvalidArgumentError("rate_per_second is above 0")
        self._limit = _EVERY if limit is None else limit
        self._rate = rate_per_second
        self._progress = progress
        self.wanted = wanted
        self._redriven_max = redriven_max
        self.result = Redriven()
        self._begun: float | None = None

    @property
    def is_over(self) -> bool:
        return self.result.done >= self._limit

    @property
    def step_messages(self) -> int:
        step = _STEP_MESSAGES if self._rate is None else min(max(int(self._rate), 1), _STEP_MESSAGES)
        return max(min(step, self._limit - self.result.done), 1)

    def judge(self, letter: DeadLetter) -> bool:
        """Whether this letter is to be handled; counts it."""
        if self.is_over or not is_meant(letter, self.wanted):
            self.result.skipped += 1
            return False
        if self._redriven_max is not None and letter.redriven >= self._redriven_max:
            self.result.refused += 1
            return False
        self.result.done += 1
        return True

    def report(self) -> None:
        if self._progress is not None:
            self._progress(self.result)

    async def pace(self) -> None:
        """Waits until the rate allows the next step."""
        if self.is_over:
            # There is none, and letters that were passed over must be released at once.
            return
        time = asyncio.get_running_loop().time()
        if self._begun is None:
            self._begun = time
        if self._rate is not None:
            await asyncio.sleep(max(self._begun + self.result.done / self._rate - time, 0))


class DeadLetters(BlockingShell[AsyncDeadLetters]):
    """Made by `Client.dead_letters`."""

    def __init__(self, inner: AsyncDeadLetters, run: Run) -> None:
        super().__init__(inner, run)
        self.origin = inner.origin
        self.group = inner.group

    @property
    def topic(self) -> str:
        """The topic in which they are: as the group's setting says, which the first call asks for."""
        return self._inner.topic

    list = blocking(AsyncDeadLetters.list)
    peek = blocking(AsyncDeadLetters.peek)
    redrive = blocking(AsyncDeadLetters.redrive)
    purge = blocking(AsyncDeadLetters.purge)
