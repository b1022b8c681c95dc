"""The guard in front of a broker: every request of a caller passes its Session, which decides and remembers.

A session belongs to one caller: a TCP connection, or somebody over HTTP or gRPC. What it has allowed once it allows
again after one look-up, until a user or a grant changes anywhere in the cluster and this node has applied that: then
everything is decided anew, and requests that wait are reconsidered (`refused`).

Nobody learns of what he may not describe: a topic that exists and one that does not are refused alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from flotilla.broker.catalog import CatalogMachine
from flotilla.broker.ports import Cancel, Done, Service
from flotilla.broker.security.audit import Audit
from flotilla.broker.security.quotas import Meter, Quotas
from flotilla.machine import steady_ms
from flotilla.types.access import (
    ALL,
    ANONYMOUS,
    ANYONE,
    DESCRIBE,
    FOUND,
    FOUNDER,
    LOCAL,
    MANAGE,
    OPERATE,
    SCHEDULE,
    USER,
    Grant,
    Principal,
    Resource,
    Right,
    allows,
)
from flotilla.types.errors import (
    FlotillaError,
    NotFoundError,
    PermissionDeniedError,
    QuotaExceededError,
    UnauthenticatedError,
    UnavailableError,
)
from flotilla.types.ids import Index
from flotilla.types.operations import OPERATIONS, CreateTopic, GetMetadata, Produce, Reply, Request
from flotilla.types.operations import Done as Acknowledged
from flotilla.types.operations.owners import owned_transaction_id
from flotilla.types.operations.quotas import namespace_of
from flotilla.types.operations.schedules import OF_SCHEDULES, CreateSchedule
from flotilla.types.operations.transactions import (
    AbortTransaction,
    CommitTransaction,
    Stage,
    StageSettlement,
    TransactionOutcome,
)

#: Decisions that one session remembers.
DECISION_COUNT_MAX: Final = 1_024
#: Topics that are being created at a time and have their line in the audit log.
_CREATING_COUNT_MAX: Final = 1_024
#: Changes that somebody makes to topics and to the cluster. Each is in the audit log, so none is decided in advance.
_AUDITED: Final = (MANAGE, SCHEDULE, OPERATE, FOUND)
#: What makes a topic larger.
_STORING: Final = (Produce, Stage)
#: What names one transaction; and everything that is done in the name of a user.
_OF_TRANSACTIONS: Final = (Stage, StageSettlement, AbortTransaction, TransactionOutcome)
_OWNED: Final = frozenset((Produce, CreateTopic, GetMetadata, CommitTransaction, *_OF_TRANSACTIONS))
#: What an operation is about, for kinds whose right follows from that alone.
_ABOUT: Final[dict[type[Request], Callable[[Any], object]]] = {
    kind: attrgetter(*kind.resource_fields) if kind.resource_fields else (lambda _: "")
    for kind in OPERATIONS.values()
    if kind.is_plain and not kind.is_narrowed and getattr(kind, "needs", None) not in _AUDITED
}


class Guard:
    """What all sessions of a node share."""

    def __init__(self, service: Service, machine: CatalogMachine, audit: Audit, now_ms: Callable[[], int]) -> None:
        """`now_ms` is the cluster's clock: no log-in ends because one wall clock jumps."""
        self.service = service
        self._now_ms = now_ms
        self.audit = audit
        self._machine = machine
        #: Who a caller is that has not logged in.
        self.stranger = ANONYMOUS
        self._quotas = Quotas(steady_ms)
        self._quota_version = -1
        #: Topics that are being created by producing to them, the oldest first.
        self._creating: dict[str, None] = {}
        #: Callers that have entered with a log-in that ends.
        self.expiring: dict[Session, None] = {}

    @property
    def now_s(self) -> int:
        return self._now_ms() // 1_000

    def expire(self) -> bool:
        """Ends the log-ins whose time is over. False: there was none."""
        ended = [session.expire() for session in list(self.expiring)]
        return any(ended)

    @property
    def version(self) -> int:
        return self._machine.state.security.version

    def granted(self, user: str) -> tuple[Grant, ...]:
        return self._machine.state.security.in_force(user)

    @property
    def quotas(self) -> Quotas:
        security = self._machine.state.security
        if security.version != self._quota_version:
            self._quota_version = security.version
            self._quotas.set(security.quotas.of_users, security.quotas.of_namespaces)
        return self._quotas

    def owner_of(self, topic: str) -> str:
        known = self._machine.state.topic(topic)
        return "" if known is None else known.owner

    def resources(self, request: Request) -> Sequence[Resource]:
        """What its right is needed on. A schedule belongs to its topic, which only the metadata know."""
        if isinstance(request, OF_SCHEDULES):
            known = self._machine.state.schedules.find(request.name)
            if known is not None:
                own = Resource(known.plan.topic)
                # One that is replaced by a schedule of another topic needs the right on both.
                return (own, *request.resources) if isinstance(request, CreateSchedule) else (own,)
        return request.resources

    def watch_creation(self, caller: "Session", request: GetMetadata, done: Done) -> Done:
        """`done`, and a line in the audit log for each topic that the request begins to create.

        It is repeated until the topic is there: the line is that of the first one.
        """
        missing = [name for name in request.topics if self.is_missing(name)]

        def answered(reply: Reply | FlotillaError) -> None:
            for name in missing if isinstance(reply, UnavailableError) else ():
                self.creates(caller, name)
            done(reply)

        return answered if missing else done

    def is_missing(self, topic: str) -> bool:
        """The topic is not there, as far as this node knows."""
        is_missing = self._machine.state.topic(topic) is None
        if not is_missing:
            self._creating.pop(topic, None)
        return is_missing

    def creates(self, caller: "Session", topic: str) -> None:
        """A missing topic is created by producing to it: a line in the audit log, the first time."""
        if topic not in self._creating:
            while len(self._creating) >= _CREATING_COUNT_MAX:
                del self._creating[next(iter(self._creating))]
            self._creating[topic] = None
            self.audit.changing(caller, "create_topic", topic=topic)("begun")

    def has_users(self) -> bool:
        """False: nobody can log in yet."""
        return self._machine.state.security.version > 0

    def is_user(self, name: str) -> bool:
        return name in self._machine.state.security.users


class Session:
    """One caller, and what it may do."""

    __slots__ = (
        "_allowed",
        "_expires_s",
        "_grants",
        "_guard",
        "_is_listed",
        "_meters",
        "_principal",
        "_version",
        "address",
        "endpoint",
        "is_metered",
    )

    def __init__(self, guard: Guard, endpoint: str, address: str, *, is_local: bool = False) -> None:
        """`is_local`: the caller is on the node's own machine."""
        self._guard = guard
        self.endpoint = endpoint
        self.address = address
        self._principal = FOUNDER if is_local and not guard.has_users() else guard.stranger
        #: The principal has a password: it ends with its user.
        self._is_listed = False
        #: When the log-in ends; 0: it has no end.
        self._expires_s = 0
        self._version = -1
        self._grants: tuple[Grant, ...] = ()
        #: Requests that are allowed, by kind and what they are about.
        self._allowed: dict[tuple[type[Request], object], None] = {}
        #: A quota may concern the caller. False: it is not counted what the caller does.
        self.is_metered = False
        #: The meters of what the caller does to each topic.
        self._meters: dict[str, tuple[Meter, ...]] = {}

    @property
    def principal(self) -> Principal:
        return self._principal

    @property
    def owner(self) -> str:
        """The user who owns the topics that the caller creates; empty: nobody does."""
        principal = self._principal
        return principal.name if principal.kind == USER and principal.name != ANYONE.name else ""

    @property
    def is_open(self) -> bool:
        """Whether the caller has said who it is, or need not."""
        if self._version != self._guard.version:
            self._renew()
        return self._principal is not ANONYMOUS

    def authenticated(self, principal: Principal, *, is_listed: bool = False, expires_s: int = 0) -> None:
        """`is_listed`: by the password of a user whom the metadata list. `expires_s`: 0 for a log-in without an end."""
        self._principal = principal
        self._is_listed = is_listed
        self._expires_s = expires_s
        self._version = -1

    def expire(self) -> bool:
        """Ends the log-in if its time is over. False: it is not."""
        has_ended = self._expires_s > 0 and self._expires_s <= self._guard.now_s
        if has_ended:
            self._principal = ANONYMOUS
            self._expires_s = 0
            self._version = -1
            self._guard.expiring.pop(self, None)
        return has_ended

    def end(self) -> None:
        """The caller has logged out."""
        self._principal = ANONYMOUS
        self._version = -1

    # Every request.

    def handle(self, request: Request, done: Done, metadata_index: Index = 0) -> Cancel | None:
        """As `broker.ports.Service`, for what the caller may do."""
        guard = self._guard
        if self._version != guard.version:
            self._renew()
        kind = type(request)
        if self.is_metered and isinstance(request, _STORING) and (full := self._full(request)) is not None:
            done(full)
            return None
        if kind in _OWNED:
            try:
                request = self._owned(request)
            except PermissionDeniedError as denied:
                guard.audit.denied(self, request, denied)
                done(denied)
                return None
        about = _ABOUT.get(kind)
        if about is not None and (kind, about(request)) in self._allowed:
            return guard.service.handle(request, done, metadata_index)
        if not self.allows(request):
            error = self.refused(request)
            assert error is not None
            guard.audit.denied(self, request, error)
            done(error)
            return None
        if request.needs in _AUDITED:
            done = guard.audit.outcome(self, request, done)
        if kind.is_narrowed:
            request, done = request.narrowed(self.may), self._narrowed(request, done)
            if isinstance(request, GetMetadata) and request.create:
                done = guard.watch_creation(self, request, done)
        return guard.service.handle(request, done, metadata_index)

    def allows(self, request: Request) -> bool:
        """Whether `handle` would carry it out; as quick."""
        if self._version != self._guard.version:
            self._renew()
        about = _ABOUT.get(type(request))
        if about is None:
            return self.refused(request) is None
        decision = (type(request), about(request))
        if decision in self._allowed:
            return True
        if self.refused(request) is not None:
            return False
        self._remember(decision)
        return True

    def refused(self, request: Request) -> FlotillaError | None:
        """Why the caller may not do this now; None: it may."""
        if self._version != self._guard.version:
            self._renew()
        resources = self._guard.resources(request)
        if allows(self._grants, self._principal, request.needs, resources):
            return None
        if self._principal.kind == LOCAL:
            return UnauthenticatedError(
                "the cluster has no users yet: `flotilla cluster init --admin-out` makes the first"
            )
        if self._principal.kind != USER or self._principal is ANYONE:
            return UnauthenticatedError("log in first: this cluster asks who its clients are")
        named = [each.topic for each in resources if each.topic and each.topic != ALL]
        hidden = [topic for topic in named if not self.may(DESCRIBE, Resource(topic))]
        if isinstance(request, OF_SCHEDULES) and resources[0].topic in (*hidden, ALL):
            # Its topic is not to be named.
            if not isinstance(request, CreateSchedule):
                return NotFoundError(f"there is no schedule {request.name!r}")
            if len(resources) > 1:
                return PermissionDeniedError(f"schedule {request.name!r} belongs to another topic")
        if hidden and not isinstance(request, CreateTopic):
            return NotFoundError(f"there is no topic {hidden[0]!r}")
        return PermissionDeniedError(f"{self._principal} may not {request.operation}: {_missing(request, resources)}")

    def checked(self, request: Request) -> Request:
        """The request, narrowed to what the caller may ask for. Raises the error that refuses it."""
        if self.allows(request):
            if self.is_metered and isinstance(request, _STORING) and (full := self._full(request)) is not None:
                raise full
            request = self._owned(request)
            return request.narrowed(self.may) if type(request).is_narrowed else request
        error = self.refused(request)
        assert error is not None
        self._guard.audit.denied(self, request, error)
        raise error

    def require(self, right: Right, resource: Resource) -> None:
        """Raises the error that refuses it: of an operation that is more than one request."""
        if not self.is_open:
            raise UnauthenticatedError("log in first: this cluster asks who its clients are")
        if self.may(right, resource):
            return
        if not self.may(DESCRIBE, Resource(resource.topic)):
            raise NotFoundError(f"there is no topic {resource.topic!r}")
        raise PermissionDeniedError(f"{self._principal} has no grant to {right} {resource.topic!r}")

    def audited(self, request: Request) -> Callable[[FlotillaError | None], None] | None:
        """What to call when a change has ended; None: the request changes nothing of interest."""
        if request.needs not in _AUDITED:
            return None
        answered = self._guard.audit.outcome(self, request, lambda _: None)
        return lambda error: answered(error or Acknowledged())

    def changing(self, operation: str, topic: str, group: str) -> Callable[[str], None]:
        """What to call with the outcome of a change that is more than one request."""
        return self._guard.audit.changing(self, operation, topic=topic, group=group)

    def creation(self, topic: str) -> Callable[[], None] | None:
        """What to call when the topic was created by producing to it; None: it is there."""
        return partial(self._guard.creates, self, topic) if self._guard.is_missing(topic) else None

    def may(self, right: Right, resource: Resource) -> bool:
        return allows(self._grants, self._principal, right, (resource,))

    def _owned(self, request: Request) -> Request:
        """The request with the caller's own ids. Raises PermissionDeniedError for those of another user.

        Those who may operate name transactions of others, too, and commit for any application.
        """
        if self._principal.kind != USER:
            return request
        user = self.owner
        if isinstance(request, Produce):
            request.owner = user
            return request
        if isinstance(request, CreateTopic | GetMetadata):
            return replace(request, owner=user)
        may_operate = self.may(OPERATE, Resource())
        own = partial(owned_transaction_id, user, may_operate=may_operate)
        if isinstance(request, CommitTransaction):
            members = [(own(each), places) for each, places in request.members]
            owner = "" if may_operate else self._principal.name
            return replace(request, transaction_id=own(request.transaction_id), members=members, owner=owner)
        if isinstance(request, _OF_TRANSACTIONS):
            return replace(request, transaction_id=own(request.transaction_id))
        return request

    # How much.

    def enter(self) -> Principal:
        """A connection of the caller, or one request of it in flight. Raises QuotaExceededError.

        Returns who is to `leave`.
        """
        if self._principal.kind == USER:
            self._guard.quotas.enter(self._principal.name)
        if self._expires_s:
            self._guard.expiring[self] = None
        return self._principal

    def leave(self, principal: Principal) -> None:
        """The connection of whoever entered has ended."""
        self._guard.expiring.pop(self, None)
        if principal.kind == USER:
            self._guard.quotas.leave(principal.name)

    def received(self, topic: str, size_bytes: int) -> None:
        """Counts a request; `topic` is empty where it names none."""
        for meter in self._meters_of(topic):
            meter.received(size_bytes)

    def sent(self, topic: str, size_bytes: int) -> None:
        """Counts an answer."""
        for meter in self._meters_of(topic):
            meter.sent(size_bytes)

    def wait_ms(self, topic: str) -> int:
        """How long the caller is to wait now, which it does; 0: nothing is owed."""
        longest_ms = 0
        for meter in self._meters_of(topic):
            wait_ms = meter.wait_ms()
            meter.waited_ms += wait_ms
            longest_ms = max(longest_ms, wait_ms)
        return longest_ms

    def _meters_of(self, topic: str) -> tuple[Meter, ...]:
        if not self.is_metered:
            return ()
        found = self._meters.get(topic)
        if found is None:
            quotas = self._guard.quotas
            own = quotas.of_users.get(self._principal.name)
            shared = quotas.of_namespaces.get(namespace_of(topic))
            found = tuple([meter for meter in (own, shared) if meter is not None])
            if len(self._meters) >= DECISION_COUNT_MAX:
                self._meters.clear()
            self._meters[topic] = found
        return found

    def _full(self, request: Produce | Stage) -> QuotaExceededError | None:
        """The error of a request whose topic belongs to a namespace or a user that can store nothing more."""
        guard = self._guard
        try:
            for meter in guard.quotas.of_topic(request.topic, guard.owner_of(request.topic)):
                meter.check_stored()
        except QuotaExceededError as error:
            self._guard.audit.denied(self, request, error)
            return error
        return None

    def _renew(self) -> None:
        """Users, grants or quotas have changed."""
        guard = self._guard
        self._version = guard.version
        self._allowed.clear()
        principal = self._principal
        if principal.kind == LOCAL and guard.has_users():
            self._principal = guard.stranger
        elif self._is_listed and not guard.is_user(principal.name):
            self._principal = ANONYMOUS
        is_user = self._principal.kind == USER
        name = self._principal.name
        self._grants = guard.granted(name) if is_user else ()
        self._meters.clear()
        quotas = guard.quotas
        self.is_metered = is_user and (name in quotas.of_users or quotas.bounds_owners or bool(quotas.of_namespaces))

    def _remember(self, decision: tuple[type[Request], object]) -> None:
        if len(self._allowed) >= DECISION_COUNT_MAX:
            self._allowed.clear()
        self._allowed[decision] = None

    def _narrowed(self, request: Request, done: Done) -> Done:
        def answered(reply: Reply | FlotillaError) -> None:
            done(reply if isinstance(reply, FlotillaError) else request.visible(reply, self.may))

        return answered


def _missing(request: Request, resources: Sequence[Resource]) -> str:
    topic, group = resources[0] if resources else Resource()
    where = f" on topic {topic!r}" if topic else ""
    return f"no grant to {request.needs}{where}{f', group {group!r}' if group else ''}"
