"""Administration of groups and single messages: questions to all partitions of a topic at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit
from flotilla.client._core.positions import chosen_partitions, find_topic
from flotilla.client.admin.group_info import GroupInfo
from flotilla.client.queue.options import StartAt, read_start
from flotilla.client.reader.message import Message, messages_of
from flotilla.codec.batch.view import BatchView
from flotilla.types.errors import InvalidArgumentError, LeaseExpiredError, NotFoundError, group_in_use
from flotilla.types.ids import Offset
from flotilla.types.limits import KIB
from flotilla.types.operations import EARLIEST, LATEST, Fetch, ListOffsets, Reply, Request
from flotilla.types.operations.queue import (
    BY_BACKOFF,
    QUEUE_KIND,
    RELEASE,
    AlterGroup,
    CancelRecords,
    DeleteGroup,
    DescribeGroup,
    ExplainMessage,
    Explanation,
    GroupDescription,
    GroupReset,
    LeaseRange,
    ListGroups,
    ResetGroup,
    Settle,
    Start,
    kinds_of,
)
from flotilla.types.operations.stream import (
    NO_OFFSET,
    DescribeStreamGroup,
    FenceGroup,
    ForgetGroup,
    ListStreamGroups,
    StreamGroupDescription,
)
from flotilla.types.operations.waiting import (
    DELAYED_SHOWN_MAX,
    BlockedKeys,
    DelayedPage,
    DelayedPlace,
    DeliverNow,
    DueTimes,
    ListBlockedKeys,
    ListDelayed,
    ReadDueTimes,
    delayed_page,
)

STREAM: Final = "stream"
#: Size of a fetch that peeks at a few messages; a larger batch is returned as well.
_PEEK_BYTES: Final = 64 * KIB

Answer = TypeVar("Answer", bound=Reply)


class Groups:
    """The groups of one topic."""

    def __init__(self, network: Network, topic: str, timeout_ms: int) -> None:
        self._network = network
        self._topic = topic
        #: For everything that is asked: one call of the user takes one time limit.
        self._limit = TimeLimit(timeout_ms)

    async def names(self) -> dict[str, str]:
        """All groups of the topic and their kinds, in the order of names."""
        lists = await self._each(lambda number: ListGroups(self._topic, number))
        found = kinds_of(lists.values())
        streams = await self._ask(ListStreamGroups(self._topic))
        found.update({name: STREAM for name in streams.groups if found.get(name) != QUEUE_KIND})
        return dict(sorted(found.items()))

    async def describe(self, group: str) -> GroupInfo:
        """Raises NotFoundError when no partition knows the group."""
        numbers = await self._numbers()
        found = await self._known(lambda number: DescribeGroup(self._topic, number, group), numbers)
        missing = [number for number in numbers if number not in found]
        kinds = {part.kind for part in found.values()}
        stream = None if QUEUE_KIND in kinds else await self._describe_stream(group)
        if stream is not None:
            untouched = await asyncio.gather(*[self._untouched(number) for number in missing])
            return GroupInfo(self._topic, group, STREAM, found | dict(zip(missing, untouched, strict=True)), stream)
        if not found:
            raise self._no_group(group)
        return GroupInfo(self._topic, group, QUEUE_KIND if QUEUE_KIND in kinds else min(kinds), found)

    async def _describe_stream(self, group: str) -> StreamGroupDescription | None:
        try:
            return await self._ask(DescribeStreamGroup(self._topic, group))
        except NotFoundError:
            return None

    async def _untouched(self, number: int) -> GroupDescription:
        """Describes a partition in which the group has committed nothing."""
        oldest, end = await self._find(number, EARLIEST), await self._find(number, LATEST)
        return GroupDescription(STREAM, NO_OFFSET, end, oldest, end - oldest)

    async def reset(
        self, group: str, start: StartAt, timestamp_ms: int | None, partitions: Sequence[int] | None, *, dry_run: bool
    ) -> dict[int, GroupReset]:
        place = read_start(None if timestamp_ms is not None else start, timestamp_ms)
        return await self.move(group, place, partitions, dry_run=dry_run)

    async def move(
        self, group: str, place: Start, partitions: Sequence[int] | None, *, dry_run: bool
    ) -> dict[int, GroupReset]:
        """Raises GroupInUseError for a stream group with members: they would go on from their own positions."""
        numbers = await self._numbers(partitions)
        epoch = await self._epoch(group, dry_run=dry_run)
        return await self._each(
            lambda number: ResetGroup(self._topic, number, group, place, dry_run, epoch),
            numbers,
        )

    async def _epoch(self, group: str, *, dry_run: bool) -> int:
        """The epoch under which a stream group without members can be moved; 0: it is no stream group."""
        if dry_run:
            found = await self._describe_stream(group)
            if found is not None and found.members:
                raise group_in_use(group, [member.name for member in found.members])
            return 0 if found is None else found.generation
        try:
            fenced = await self._ask(FenceGroup(self._topic, group))
        except NotFoundError:
            return 0
        return fenced.generation

    async def delete(self, group: str, partitions: Sequence[int] | None = None, *, is_forced: bool = False) -> None:
        """Raises NotFoundError when no partition knows the group, and GroupInUseError when it has live members.

        All partitions are asked for members before anything is deleted, and each leader looks once more. The
        coordinator is asked first, so that a member that joins meanwhile creates the group anew. Settings of the group
        are removed last, so that a paused group gets no messages meanwhile. They stay if only some partitions are
        deleted.
        """
        numbers = await self._numbers(partitions)
        if not is_forced:
            await self._check_unused(group, numbers)
        is_known = await self._forget_stream(group, is_forced=is_forced) if partitions is None else False
        missing: list[NotFoundError] = []
        for number in numbers:
            try:
                await self._ask(DeleteGroup(self._topic, number, group, is_forced))
            except NotFoundError as error:
                missing.append(error)
        if partitions is None and await self._forget_settings(group):
            is_known = True
        if len(missing) == len(numbers) and not is_known:
            raise missing[0]

    async def _check_unused(self, group: str, numbers: list[int]) -> None:
        """Raises GroupInUseError for a queue group with live members."""
        found = await self._known(lambda number: DescribeGroup(self._topic, number, group), numbers)
        live = {member.name for part in found.values() for member in part.members if member.is_live}
        if live:
            raise group_in_use(group, sorted(live))

    async def _forget_stream(self, group: str, *, is_forced: bool) -> bool:
        """Whether the coordinator knew the group."""
        try:
            await self._ask(ForgetGroup(self._topic, group, is_forced))
        except NotFoundError:
            return False
        return True

    async def _forget_settings(self, group: str) -> bool:
        """Whether the group had settings. The broker is asked: it may know more settings than this client."""
        found = await self.alter(group, {})
        if found:
            await self.alter(group, dict.fromkeys(found, ""))
        return bool(found)

    async def alter(self, group: str, settings: dict[str, str]) -> dict[str, str]:
        request = AlterGroup(self._topic, group, settings)
        return (await self._ask(request)).settings

    # What waits.

    async def due_times(self, group: str = "") -> DueTimes:
        """Raises NotFoundError when no partition knows the group."""
        found = await self._known(lambda number: ReadDueTimes(self._topic, number, group))
        if not found:
            raise self._no_group(group)
        counts = [sum(column) for column in zip(*[each.counts for each in found.values()], strict=True)]
        return DueTimes(counts, any(each.is_estimated for each in found.values()))

    async def delayed(self, group: str, limit: int, after: str) -> DelayedPage:
        """Raises NotFoundError when no partition knows the group."""
        limit = min(max(limit, 1), DELAYED_SHOWN_MAX)
        place = DelayedPlace.parse(after) if after else None

        def request(number: int) -> ListDelayed:
            begin = place.after(number) if place else (0, 0)
            return ListDelayed(self._topic, number, group, limit, *begin)

        found = await self._known(request)
        if not found:
            raise self._no_group(group)
        return delayed_page(found, limit)

    async def deliver_now(self, group: str, partition: int, offset: Offset) -> None:
        """Raises NotFoundError when the message is not there any more."""
        due = await self._ask(DeliverNow(self._topic, partition, [offset], group))
        if not due.offsets:
            raise NotFoundError(f"message {partition}:{offset} is not in the log any more")

    async def blocked_keys(self, group: str, limit: int) -> dict[int, BlockedKeys]:
        """Up to `limit` keys of each partition that the group has come to. Raises NotFoundError: of none."""
        found = await self._known(lambda number: ListBlockedKeys(self._topic, number, group, limit))
        if not found:
            raise self._no_group(group)
        return found

    # Single messages.

    async def cancel(
        self, partition: int | None, offset: Offset | None, idempotency_key: str | bytes | None
    ) -> list[tuple[int, Offset]]:
        """Partition and offset of each cancelled message."""
        if (offset is None) == (idempotency_key is None):
            raise InvalidArgumentError("say which message: either by its offset or by its idempotency key")
        if offset is not None and partition is None:
            raise InvalidArgumentError("an offset is one of a partition: say which")
        offsets = [] if offset is None else [offset]
        keys = [idempotency_key.encode() if isinstance(idempotency_key, str) else idempotency_key or b""]
        found = await self._each(
            lambda number: CancelRecords(self._topic, number, offsets, [] if offsets else keys),
            None if partition is None else [partition],
        )
        return [(number, cancelled) for number, reply in found.items() for cancelled in reply.offsets]

    async def explain(self, group: str, partition: int, offset: Offset, *, has_history: bool) -> Explanation:
        request = ExplainMessage(self._topic, partition, offset, group, has_history=has_history)
        return await self._ask(request)

    async def settle_held(self, group: str, partition: int, offset: Offset, kind: int, reason: str = "") -> str:
        """Settles a message that a member holds, and returns the member. Raises LeaseExpiredError if none holds it."""
        holder = (await self.explain(group, partition, offset, has_history=False)).holder
        if not holder:
            raise LeaseExpiredError("the message is not leased")
        leases = [LeaseRange(0, offset, offset + 1)]
        delay_ms = 0 if kind == RELEASE else BY_BACKOFF
        settled = await self._ask(Settle(self._topic, partition, group, kind, leases, reason, delay_ms, [holder]))
        if settled.expired:
            raise LeaseExpiredError(f"the lease of {holder} has ended")
        return holder

    async def peek(self, partition: int, offset: Offset | None, max_messages: int) -> list[Message]:
        """Stored messages from an offset, or from the oldest, at most `count`. Changes nothing."""
        if max_messages < 1:
            raise InvalidArgumentError("max_messages is at least 1")
        oldest = await self._find(partition, EARLIEST)
        end = await self._find(partition, LATEST)
        position = oldest if offset is None else max(offset, oldest)
        found: list[Message] = []
        while position < end and len(found) < max_messages:
            request = Fetch(self._topic, partition, position, _PEEK_BYTES)
            fetched = await self._ask(request)
            for batch in fetched.batches:
                messages = messages_of(self._topic, partition, BatchView(batch))
                found += [message for message in messages if message.offset >= position]
                position = messages[-1].offset + 1
            if not fetched.batches:
                break
        return found[:max_messages]

    async def _find(self, partition: int, place: int) -> Offset:
        return (await self._ask(ListOffsets(self._topic, partition, place))).offset

    # Internal.

    async def _numbers(self, partitions: Sequence[int] | None = None) -> list[int]:
        return chosen_partitions(await find_topic(self._network, self._topic, self._left_ms()), partitions)

    async def _ask(self, request: Request[Answer]) -> Answer:
        return await self._network.call(request, self._left_ms())

    def _left_ms(self) -> int:
        return self._limit.left_ms or 1

    async def _each(
        self, request: Callable[[int], Request[Answer]], partitions: Sequence[int] | None = None
    ) -> dict[int, Answer]:
        """Asks all partitions at once."""
        numbers = await self._numbers(partitions)
        answers = await asyncio.gather(*[self._ask(request(number)) for number in numbers])
        return dict(zip(numbers, answers, strict=True))

    async def _known(
        self, request: Callable[[int], Request[Answer]], partitions: Sequence[int] | None = None
    ) -> dict[int, Answer]:
        """The same, without the partitions that do not know the group."""
        numbers = await self._numbers(partitions)
        answers = await asyncio.gather(*[self._ask(request(number)) for number in numbers], return_exceptions=True)
        found = {}
        for number, answer in zip(numbers, answers, strict=True):
            if not isinstance(answer, BaseException):
                found[number] = answer
            elif not isinstance(answer, NotFoundError):
                raise answer
        return found

    def _no_group(self, group: str) -> NotFoundError:
        return NotFoundError(f"topic {self._topic!r} has no group {group!r}")
