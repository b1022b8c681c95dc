"""The gateway as the callers of HTTP and gRPC get it: what they ask passes their own session, not the node's.

Behind the gateway a node acts as a node, which may do everything. So the endpoints hold this class where clients have
to say who they are, and it offers nothing that does not ask the caller's session first. Requests that wait, and
subscriptions, end when users or grants change and their caller may not make them any more.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from flotilla.client._core.closing import TimeLimit
from flotilla.client._duration import Duration
from flotilla.client._options import read_timeout
from flotilla.client.admin.dead_letters import AsyncDeadLetters, LettersRun, Redriven, Send
from flotilla.client.admin.groups import Groups
from flotilla.client.admin.schedules import AsyncSchedules
from flotilla.client.admin.trimming import purge, trim
from flotilla.client.producer.receipt import Receipt
from flotilla.codec.client.handover import size_of
from flotilla.gateway.gateway import TIMEOUT_MS_DEFAULT, Gateway
from flotilla.gateway.produce import PendingRecords
from flotilla.gateway.subscription import GatewaySubscription
from flotilla.types.access import CONSUME, DESCRIBE, MANAGE, PRODUCE, Principal, Resource, Right
from flotilla.types.dead_letters import dead_letter_topic, redrive_group
from flotilla.types.errors import FlotillaError, UnauthenticatedError
from flotilla.types.ids import Index, NodeId, Offset
from flotilla.types.operations import (
    GetMetadata,
    LeaveQueue,
    Metadata,
    Poll,
    Polled,
    Produce,
    Pushed,
    Reply,
    Request,
    Subscribe,
    TopicInfo,
)
from flotilla.types.operations.schedules import CreateSchedule, ScheduleDefinition, ScheduleInfo
from flotilla.types.records import Record

R = TypeVar("R", bound=Reply)
T = TypeVar("T")


class Session(Protocol):
    """Who asks, and what it may do: broker.security.guard.Session."""

    @property
    def principal(self) -> Principal: ...

    @property
    def owner(self) -> str:
        """The user who owns the topics that the caller creates; empty: nobody does."""

    def checked(self, request: Request) -> Request:
        """The request, narrowed to what the caller may ask for. Raises the error that refuses it."""

    def refused(self, request: Request) -> FlotillaError | None:
        """Why the caller may not do this now; None: it may."""

    def require(self, right: Right, resource: Resource) -> None:
        """Raises the error that refuses it."""

    def may(self, right: Right, resource: Resource) -> bool: ...

    def audited(self, request: Request) -> Callable[[FlotillaError | None], None] | None:
        """What to call when a change has ended; None: nothing."""

    def changing(self, operation: str, topic: str, group: str) -> Callable[[str], None]:
        """What to call with the outcome of a change that is more than one request."""

    def creation(self, topic: str) -> Callable[[], None] | None:
        """What to call when the topic was created by producing to it; None: it is there."""

    @property
    def is_metered(self) -> bool:
        """A quota may concern the caller."""

    def received(self, topic: str, size_bytes: int) -> None:
        """Counts a request."""

    def sent(self, topic: str, size_bytes: int) -> None:
        """Counts an answer."""

    def wait_ms(self, topic: str) -> int:
        """How long the caller is to wait now, which it does; 0: nothing is owed."""


#: The session of whoever is served now. The endpoints set it, for the task that serves.
CALLER: ContextVar[Session | None] = ContextVar("caller", default=None)


class GuardedGateway(Gateway):
    """Stands in for a Gateway, of which it has nothing but what is written here: any other method fails."""

    def __init__(self, inner: Gateway) -> None:
        # Not the base's: this is no gateway itself.
        self._inner = inner
        #: Requests that wait, with who asks, and the errors of those that were ended.
        self._waiting: dict[asyncio.Task[Any], tuple[Session, Request]] = {}
        self._ended: dict[asyncio.Task[Any], FlotillaError] = {}
        self._subscriptions: WeakKeyDictionary[GatewaySubscription, tuple[Session, Request]] = WeakKeyDictionary()

    # What tells nothing.

    async def close(self) -> None:
        await self._inner.close()

    async def learn_time(self) -> None:
        await self._inner.learn_time()

    def now_ms(self) -> int:
        return self._inner.now_ms()

    @property
    def metadata_index(self) -> Index:
        return self._inner.metadata_index

    async def reach(self, index: Index, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        _session()
        await self._inner.reach(index, timeout_ms=timeout_ms)

    @property
    def caller(self) -> object:
        """Callers that are equal have the same rights: what they ask for may share a request."""
        return _session().principal

    # Any request.

    async def ask(self, request: Request[R], *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> R:
        session = _session()
        narrowed = session.checked(request)
        topic = getattr(request, "topic", "")
        await _paced(session, topic, size_of(request))
        work = self._inner.ask(narrowed, timeout_ms=timeout_ms)
        reply = await self._audited(session, request, self._watched(session, request, work))
        session.sent(topic, size_of(reply))
        return cast(R, request.visible(reply, session.may))

    async def ask_node(self, node: NodeId, request: Request[R], *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> R:
        _session().checked(request)
        return await self._inner.ask_node(node, request, timeout_ms=timeout_ms)

    def may(self, right: Right, resource: Resource) -> bool:
        return _session().may(right, resource)

    async def metadata(self, topics: Sequence[str] = (), *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        return await self.ask(GetMetadata(list(topics), is_linearizable=True), timeout_ms=timeout_ms)

    async def cluster(self, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Metadata:
        return await self.ask(GetMetadata([""]), timeout_ms=timeout_ms)

    async def topic(self, name: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> TopicInfo:
        _session().require(DESCRIBE, Resource(name))
        return await self._inner.topic(name, timeout_ms=timeout_ms)

    def known_topic(self, name: str) -> TopicInfo | None:
        _session().require(DESCRIBE, Resource(name))
        return self._inner.known_topic(name)

    async def partitions(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> list[int]:
        _session().require(DESCRIBE, Resource(topic))
        return await self._inner.partitions(topic, timeout_ms=timeout_ms)

    async def trim(
        self, topic: str, offsets: Mapping[int, Offset] | None, *, timeout_ms: int = TIMEOUT_MS_DEFAULT
    ) -> dict[int, Offset]:
        limit = TimeLimit(timeout_ms)
        found = await self.topic(topic, timeout_ms=timeout_ms)

        def ask(request: Request[R]) -> Awaitable[R]:
            return self.ask(request, timeout_ms=limit.left_ms or 1)

        return await (purge(ask, found) if offsets is None else trim(ask, found, offsets))

    def groups(self, topic: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Groups:
        _session().require(DESCRIBE, Resource(topic))
        # The same operations, each asked for by itself.
        groups = self._inner.groups(topic, timeout_ms=timeout_ms)
        groups._ask = lambda request: self.ask(request, timeout_ms=groups._left_ms())  # type: ignore[method-assign]
        return groups

    def schedules(self, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> AsyncSchedules:
        return GuardedSchedules(self, self._inner.schedules(timeout_ms=timeout_ms), timeout_ms)

    @asynccontextmanager
    async def dead_letters(
        self, topic: str, group: str, *, redrives: bool = False, timeout_ms: int = TIMEOUT_MS_DEFAULT
    ) -> AsyncIterator[AsyncDeadLetters]:
        """Whoever manages a group reads and discards its dead letters; and returns them, if it may produce."""
        session = _session()

        def check() -> None:
            session.require(MANAGE, Resource(topic, group))
            if redrives:
                session.require(PRODUCE, Resource(topic))

        check()
        await _paced(session, topic)
        async with self._inner.dead_letters(topic, group, timeout_ms=timeout_ms) as letters:
            yield GuardedDeadLetters(letters, session, check)

    # Producing.

    async def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
        create: bool = True,
        owner: str = "",
    ) -> list[Receipt]:
        may_create = await self._may_produce(topic, records, create=create)
        created = _session().creation(topic) if may_create else None
        receipts = await self._inner.produce(
            topic, records, partition=partition, timeout_ms=timeout_ms, create=may_create, owner=_session().owner
        )
        if created is not None:
            created()
        return receipts

    async def send(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int | None = None,
        create: bool = True,
        owner: str = "",
    ) -> PendingRecords:
        may_create = await self._may_produce(topic, records, create=create)
        created = _session().creation(topic) if may_create else None
        owner = _session().owner
        pending = await self._inner.send(topic, records, partition=partition, create=may_create, owner=owner)
        if created is not None:
            created()
        return pending

    async def _may_produce(self, topic: str, records: Sequence[Record], *, create: bool) -> bool:
        """Whether the topic may be created, too. Raises FlotillaError."""
        session = _session()
        session.checked(Produce(topic, 0, b""))
        if session.is_metered:
            await _paced(session, topic, sum([len(record.payload) + len(record.key or b"") for record in records]))
        return create and session.may(MANAGE, Resource(topic))

    # Queue groups.

    async def poll(self, request: Poll, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> Polled:
        session = _session()
        session.checked(request)
        await _paced(session, request.topic)
        polled = await self._watched(session, request, self._inner.poll(request, timeout_ms=timeout_ms))
        session.sent(request.topic, size_of(polled))
        return polled

    async def subscribe(self, request: Subscribe, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> GatewaySubscription:
        session = _session()
        session.checked(request)
        await _paced(session, request.topic)
        subscription = await self._inner.subscribe(request, timeout_ms=timeout_ms)

        async def paced(pushed: Pushed) -> None:
            session.sent(request.topic, size_of(pushed))
            await _waited(session, request.topic)

        subscription.paced = paced
        self._subscriptions[subscription] = (session, request)
        return subscription

    async def leave(self, topic: str, group: str, member: str, *, timeout_ms: int = TIMEOUT_MS_DEFAULT) -> None:
        _session().checked(LeaveQueue(topic, group, member, 0))
        await self._inner.leave(topic, group, member, timeout_ms=timeout_ms)

    # When users or grants change.

    def reconsider(self) -> None:
        """Ends what waits and is allowed no more."""
        for task, (session, request) in list(self._waiting.items()):
            error = session.refused(request)
            if error is not None and not task.done():
                self._ended[task] = error
                task.cancel()
        for subscription, (session, request) in list(self._subscriptions.items()):
            error = session.refused(request)
            if error is not None:
                subscription.end(error)

    async def _watched(self, session: Session, request: Request, work: Coroutine[Any, Any, T]) -> T:
        if not isinstance(request, Poll) and not getattr(request, "wait_ms", 0):
            return await work
        task = asyncio.ensure_future(work)
        self._waiting[task] = (session, request)
        try:
            return await task
        except asyncio.CancelledError:
            error = self._ended.pop(task, None)
            if error is not None:
                raise error from None
            raise
        finally:
            del self._waiting[task]
            self._ended.pop(task, None)

    async def _audited(self, session: Session, request: Request, work: Awaitable[T]) -> T:
        ended = session.audited(request)
        if ended is None:
            return await work
        try:
            reply = await work
        except FlotillaError as error:
            ended(error)
            raise
        ended(None)
        return reply


class GuardedSchedules(AsyncSchedules):
    def __init__(self, gateway: GuardedGateway, inner: AsyncSchedules, timeout_ms: int) -> None:
        super().__init__(inner._opened, timeout_ms)
        self._gateway = gateway
        self._owner = _session().owner

    async def _ask(self, request: Request[R], timeout_ms: Duration | None) -> R:
        return await self._gateway.ask(request, timeout_ms=read_timeout(timeout_ms, self._timeout_ms))

    async def put(
        self, name: str, definition: ScheduleDefinition, *, is_update: bool, timeout_ms: Duration | None = None
    ) -> ScheduleInfo:
        # Before its topic is created.
        _session().checked(CreateSchedule(name, definition, is_update))
        return await super().put(name, definition, is_update=is_update, timeout_ms=timeout_ms)


class GuardedDeadLetters(AsyncDeadLetters):
    """Each step is done by the node's own client, so each asks before what the caller may do."""

    def __init__(self, inner: AsyncDeadLetters, session: Session, check: Callable[[], None]) -> None:
        """`check` raises the error that refuses the dead letters of this group."""
        super().__init__(inner._client, inner.origin, inner.group, inner._timeout_ms)
        self._caller = session
        self._check_group = check

    async def _work(self, run: LettersRun, send: Send | None) -> Redriven:
        operation = "purge_dead_letters" if send is None else "redrive_dead_letters"
        ended = self._caller.changing(operation, self.origin, self.group)
        try:
            result = await super()._work(run, send)
        except BaseException as error:
            ended(error.code if isinstance(error, FlotillaError) else "interrupted")
            raise
        ended("done")
        return result

    def _check_rights(self) -> None:
        self._check_group()
        if self.topic != dead_letter_topic(self.group, self.origin):
            # It belongs to those whom grants name, and to nobody because a group's setting names it.
            redriver = redrive_group(self.topic, self.group, self.origin)
            self._caller.require(CONSUME, Resource(self.topic, redriver))


async def _paced(session: Session, topic: str, size_bytes: int = 0) -> None:
    """Waits until the quotas of the caller allow a request, and counts it."""
    if session.is_metered:
        await _waited(session, topic)
        session.received(topic, size_bytes)


async def _waited(session: Session, topic: str) -> None:
    while wait_ms := session.wait_ms(topic):
        await asyncio.sleep(wait_ms / 1000)


def _session() -> Session:
    session = CALLER.get()
    if session is None:
        raise UnauthenticatedError("log in first: this cluster asks who its clients are")
    return session
