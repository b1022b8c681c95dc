"""Schedules: recurring messages that the cluster produces by itself."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypeVar

from flotilla.client._blocking import BlockingShell, blocking
from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.closing import TimeLimit
from flotilla.client._core.positions import find_topic
from flotilla.client._duration import Duration, milliseconds
from flotilla.client._options import checked_time, read_timeout, time_ms
from flotilla.client.producer.record_fields import RecordFields, make_record
from flotilla.types.errors import InvalidArgumentError, NotFoundError
from flotilla.types.operations import Reply, Request
from flotilla.types.operations.schedules import (
    CreateSchedule,
    DeleteSchedule,
    ListSchedules,
    PauseSchedule,
    RunSchedule,
    ScheduleDefinition,
    ScheduleInfo,
    ScheduleList,
    ScheduleReply,
)
from flotilla.types.schedules import INTERVAL_MS_MAX, MISSED_COUNT, MISSED_COUNT_MAX, ONE

Missed: TypeAlias = Literal["skip", "one", "all"]
_Answer = TypeVar("_Answer", bound=Reply)
#: Coming occurrences of one schedule that is asked for by name.
_UPCOMING: Final = 5


class AsyncSchedules:
    """The attribute `schedules` of an AsyncClient: recurring messages that the cluster produces by itself."""

    def __init__(self, opened: Callable[[], Network], timeout_ms: int) -> None:
        self._opened = opened
        self._timeout_ms = timeout_ms
        #: Of nodes only: the user for whom they create topics.
        self._owner = ""

    async def create(
        self,
        name: str,
        topic: str,
        payload: bytes = b"",
        *,
        cron: str | None = None,
        every_ms: Duration | None = None,
        time_zone: str = "",
        start_at: datetime | int | None = None,
        missed: Missed = ONE,
        missed_max: int = MISSED_COUNT,
        key: bytes | None = None,
        headers: Mapping[str, bytes | str] | Iterable[tuple[str, bytes | str]] = (),
        priority: int = 0,
        content_type: int = 0,
        update: bool = False,
        timeout_ms: Duration | None = None,
    ) -> ScheduleInfo:
        """Produces a message at every time that `cron` names, or at an interval. Raises AlreadyExistsError.

        cron: five fields, as in `"0 3 * * *"`, or six with the seconds first; also `@hourly`, `@daily` and the like
        time_zone: the IANA name of the zone in which the expression is meant; by default UTC
        every_ms: an interval from a second on, counted from `start_at`, or from now
        missed: what becomes of occurrences that the cluster could not produce in time: `skip` leaves them out,
            with `one` a single message stands for all of them, `all` makes up for the newest `missed_max`
        update: a schedule of that name gets this definition; one that has it stays as it is
        """
        fields: RecordFields = {"headers": headers, "priority": priority, "content_type": content_type}
        record = make_record(payload, key, fields, 0)
        if key == b"":
            raise InvalidArgumentError("the key of a schedule is not empty; None is no key")
        if (cron is None) == (every_ms is None):
            raise InvalidArgumentError("a schedule has either a cron expression or an interval")
        if not 1 <= missed_max <= MISSED_COUNT_MAX:
            raise InvalidArgumentError(f"missed_max is 1 to {MISSED_COUNT_MAX}, not {missed_max}")
        start_ms = time_ms(start_at) if isinstance(start_at, datetime) else checked_time(start_at or 0)
        definition = ScheduleDefinition(
            topic=topic,
            cron=cron or "",
            every_ms=_interval(every_ms),
            time_zone=time_zone,
            start_ms=start_ms,
            missed=missed,
            missed_max=missed_max,
            payload=record.payload,
            key=record.key or b"",
            headers=list(record.headers),
            priority=record.priority,
            content_type=record.content_type,
        )
        return await self.put(name, definition, is_update=update, timeout_ms=timeout_ms)

    async def put(
        self, name: str, definition: ScheduleDefinition, *, is_update: bool, timeout_ms: Duration | None = None
    ) -> ScheduleInfo:
        """Its topic is created if it is missing, where the cluster allows that."""
        limit = TimeLimit(read_timeout(timeout_ms, self._timeout_ms))
        await find_topic(self._opened(), definition.topic, limit.left_ms or 1, create=True, owner=self._owner)
        return await self._change(CreateSchedule(name, definition, is_update), limit.left_ms)

    async def list(self, *, upcoming: int = 1, timeout_ms: Duration | None = None) -> list[ScheduleInfo]:
        """All schedules by name, each with its `upcoming` next occurrences."""
        page = await self.page("", upcoming, timeout_ms=timeout_ms)
        found = list(page.schedules)
        while page.next:
            page = await self.page(page.next, upcoming, timeout_ms=timeout_ms)
            found += page.schedules
        return found

    async def page(self, after: str, upcoming: int, *, timeout_ms: Duration | None = None) -> ScheduleList:
        """Some of them, with later names than `after`."""
        return await self._ask(ListSchedules("", after, upcoming), timeout_ms)

    async def get(self, name: str, *, upcoming: int = _UPCOMING, timeout_ms: Duration | None = None) -> ScheduleInfo:
        """One schedule. Raises NotFoundError."""
        found = (await self._ask(ListSchedules(name, "", upcoming), timeout_ms)).schedules if name else []
        if not found:
            raise NotFoundError(f"there is no schedule {name!r}")
        return found[0]

    async def pause(self, name: str, *, timeout_ms: Duration | None = None) -> ScheduleInfo:
        """Nothing is produced until it is resumed, and nothing of that time afterwards."""
        return await self._change(PauseSchedule(name, True), timeout_ms)

    async def resume(self, name: str, *, timeout_ms: Duration | None = None) -> ScheduleInfo:
        """Goes on with the next occurrence from now."""
        return await self._change(PauseSchedule(name, False), timeout_ms)

    async def delete(self, name: str, *, timeout_ms: Duration | None = None) -> ScheduleInfo:
        """Removes a schedule, and returns it as it was. Its messages stay. Raises NotFoundError."""
        return await self._change(DeleteSchedule(name), timeout_ms)

    async def run(self, name: str, *, timeout_ms: Duration | None = None) -> ScheduleInfo:
        """Produces its message now, also while it is paused. Its occurrences stay as they are."""
        return await self._change(RunSchedule(name), timeout_ms)

    async def _change(self, request: Request[ScheduleReply], timeout_ms: Duration | None) -> ScheduleInfo:
        return (await self._ask(request, timeout_ms)).schedule

    async def _ask(self, request: Request[_Answer], timeout_ms: Duration | None) -> _Answer:
        return await self._opened().call(request, read_timeout(timeout_ms, self._timeout_ms))


class Schedules(BlockingShell[AsyncSchedules]):
    """The attribute `schedules` of a Client: recurring messages that the cluster produces by itself."""

    create = blocking(AsyncSchedules.create)
    put = blocking(AsyncSchedules.put)
    list = blocking(AsyncSchedules.list)
    page = blocking(AsyncSchedules.page)
    get = blocking(AsyncSchedules.get)
    pause = blocking(AsyncSchedules.pause)
    resume = blocking(AsyncSchedules.resume)
    delete = blocking(AsyncSchedules.delete)
    run = blocking(AsyncSchedules.run)


def _interval(every_ms: Duration | None) -> int:
    if every_ms is None:
        return 0
    interval_ms = milliseconds(every_ms)
    if not 0 < interval_ms <= INTERVAL_MS_MAX:
        raise InvalidArgumentError(f"an interval is a second to 366 days, not {interval_ms} ms")
    return interval_ms
