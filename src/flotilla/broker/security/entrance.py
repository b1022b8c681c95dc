"""The entrance of one connection: who is there, how it can say so, and then what it may do."""

from collections.abc import Callable
from typing import TypeAlias

from flotilla.broker.ports import Cancel, Done, Service
from flotilla.broker.security.authentication import BEARER, Authentication, JoinLogIn, LogIn
from flotilla.broker.security.guard import Guard, Session
from flotilla.security.join_secret import JOIN_MECHANISM, JoinSecret
from flotilla.types.access import LOCAL, NODE, Principal
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, UnauthenticatedError
from flotilla.types.ids import Index
from flotilla.types.operations import Authenticate, Challenge, InitCluster, JoinCluster, Request
from flotilla.types.operations.cluster import EnterCluster

#: Calls a function after so many milliseconds: broker.ports.Outside.later.
Later: TypeAlias = Callable[[int, Callable[[], None]], Cancel]


class Entrance:
    """Implements frontends.tcp.connection.Entrance."""

    def __init__(
        self,
        guard: Guard,
        authentication: Authentication,
        endpoint: str,
        address: Address | None,
        certificate: Principal | None,
        later: Later,
        *,
        is_encrypted: bool,
    ) -> None:
        """`address` is the caller's, if it is known; `certificate` whom its certificate names, if it showed one.

        `later` sets a timer.
        """
        is_local = address is not None and address.is_loopback
        # Where there is a join secret, it takes more than an address to found a cluster.
        may_found = is_local and authentication.join_secret is None
        self.session = Session(guard, endpoint, str(address or ""), is_local=may_found)
        self.handle = self.session.handle
        self.refused = self.session.refused
        self.allows = self.session.allows
        self._guard = guard
        self._later = later
        #: Who holds the connection's place; None: nobody has entered.
        self._holder: Principal | None = None
        self._log_in = LogIn(authentication, self._logged_in)
        self._has_entered = False
        self._mechanism = ""
        offered = authentication.mechanisms
        #: Empty: the certificate says who it is. Tokens can be read on the way, so they need a safe one.
        self.mechanisms = [name for name in offered if name != BEARER or is_encrypted or is_local]
        if certificate is not None:
            self.mechanisms = []
            self.session.authenticated(certificate)
            self._has_entered = True
            guard.audit.logged_in(certificate, "certificate", endpoint, self.session.address)

    @property
    def is_open(self) -> bool:
        return self.session.is_open

    @property
    def has_ended(self) -> bool:
        """The caller had entered, and was removed since, or its token has expired."""
        self.session.expire()
        return self._has_entered and not self.session.is_open

    # How much.

    @property
    def is_metered(self) -> bool:
        """What the caller sends and gets is counted."""
        return self.session.is_metered

    def enter(self) -> None:
        """The caller has said who it is. Raises QuotaExceededError."""
        if self._holder != self.session.principal:
            self.leave()
            self._holder = self.session.enter()

    def leave(self) -> None:
        """The connection has ended."""
        holder, self._holder = self._holder, None
        if holder is not None:
            self.session.leave(holder)

    def received(self, request: Request, size_bytes: int, resume: Callable[[], None]) -> bool:
        """Counts a request. True: the caller is not to be read until `resume` is called."""
        topic = getattr(request, "topic", "")
        self.session.received(topic, size_bytes)
        return self._pause(topic, resume)

    def sent(self, request: Request, size_bytes: int, resume: Callable[[], None] | None) -> bool:
        """Counts an answer; the same. `resume` is None while the caller is not read anyway."""
        topic = getattr(request, "topic", "")
        self.session.sent(topic, size_bytes)
        return resume is not None and self._pause(topic, resume)

    def _pause(self, topic: str, resume: Callable[[], None]) -> bool:
        wait_ms = self.session.wait_ms(topic)
        if not wait_ms:
            return False

        def waited() -> None:
            # Others of the same user may have used what has come meanwhile.
            if not self._pause(topic, resume):
                resume()

        self._later(wait_ms, waited)
        return True

    def step(self, request: Authenticate) -> Challenge:
        """Raises UnauthenticatedError."""
        self._mechanism = request.mechanism
        try:
            is_offered = request.mechanism in self.mechanisms and not self._has_entered
            if not is_offered and request.mechanism != JOIN_MECHANISM:
                raise UnauthenticatedError(f"{request.mechanism[:32]!r} is not offered on this connection")
            return self._log_in.step(request)
        except UnauthenticatedError as error:
            session = self.session
            name = self._log_in.name
            self._guard.audit.not_logged_in(name, request.mechanism, session.endpoint, session.address, str(error))
            raise

    def _logged_in(self, principal: Principal, is_listed: bool, expires_s: int) -> None:
        self.session.authenticated(principal, is_listed=is_listed, expires_s=expires_s)
        self._has_entered = True
        if principal.kind not in (NODE, LOCAL):
            session = self.session
            self._guard.audit.logged_in(principal, self._mechanism, session.endpoint, session.address)


class JoinEntrance:
    """The entrance where nobody is asked who they are, but founding, entering and joining need the join secret.

    Implements frontends.tcp.connection.Entrance.
    """

    has_ended = False
    is_open = True
    is_metered = False

    def __init__(self, service: Service, secret: JoinSecret) -> None:
        self.mechanisms: list[str] = []
        self._service = service
        self._log_in = JoinLogIn(secret)

    def enter(self) -> None:
        """There are no users, so nothing is counted."""

    def leave(self) -> None:
        """The same."""

    def received(self, request: Request, size_bytes: int, resume: Callable[[], None]) -> bool:
        return False

    def sent(self, request: Request, size_bytes: int, resume: Callable[[], None] | None) -> bool:
        return False

    def step(self, request: Authenticate) -> Challenge:
        """Raises UnauthenticatedError."""
        if request.mechanism != JOIN_MECHANISM:
            raise UnauthenticatedError("this broker asks for its join secret only, and only those who join")
        return self._log_in.step(request.data)

    def handle(self, request: Request, done: Done, metadata_index: Index = 0) -> Cancel | None:
        error = self.refused(request)
        if error is None:
            return self._service.handle(request, done, metadata_index)
        done(error)
        return None

    def allows(self, request: Request) -> bool:
        return self.refused(request) is None

    def refused(self, request: Request) -> FlotillaError | None:
        # Without nodes it only asks for the name of this one.
        is_about_nodes = isinstance(request, JoinCluster | EnterCluster | InitCluster)
        if not is_about_nodes or self._log_in.is_done or (isinstance(request, InitCluster) and not request.nodes):
            return None
        return UnauthenticatedError(f"{request.operation} needs the join secret of this cluster (join_secret)")


#: Makes the entrance of a connection: the caller's address, whom its certificate names, whether it is encrypted.
Entrances: TypeAlias = Callable[[Address | None, Principal | None, bool], Entrance | JoinEntrance]
