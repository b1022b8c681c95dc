"""The client's side of a cluster without sockets or clock: calls in, actions and results out.

The session finds leaders, keeps one connection per broker, sends each call to its broker, and retries it until its
deadline as far as its effect allows. The driver carries out the actions (dial, write, close), reports their results,
and calls `tick` at `wake_ms`.

A broker that sends nothing although an answer is due becomes a suspect: it may be dead or only slow. Other brokers are
asked repeatedly who leads in its place, and its calls stay with it until one of them names another leader: so a slow
broker gets no call twice, and a dead one delays its calls no longer than an election takes. While all calls at a broker
are long polls, no answer is due: the session pings a broker that is silent meanwhile, so a long poll notices a dead
broker as fast as any call. A long poll at a broker that no longer leads ends as soon as the new leader is known.

Every input carries the time. A call is in `_calls` from `submit` until its result is decided, wherever else it is;
results are passed on at the end of an input, when the state is consistent again, so that `done` may submit the next
call.
"""

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from flotilla.client._core.broker_clock import BrokerTime
from flotilla.client._core.calls import CallResult, ClientCall, outcome_unknown
from flotilla.client._core.connection import ClientConnection
from flotilla.client._core.links import Action, Close, Dial, Link, LinkId, Write
from flotilla.client._core.routes import Routes
from flotilla.client._core.seen_metadata import SeenMetadata
from flotilla.client._core.session_options import SessionOptions
from flotilla.client._core.timers import Timer, Timers
from flotilla.types.address import Address
from flotilla.types.errors import (
    ConnectionClosedError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    QuotaExceededError,
    ReplicaBehindError,
    UnauthenticatedError,
    UnavailableError,
    UnknownError,
)
from flotilla.types.operations import ANY, CONTROLLER, READ, GetMetadata, Metadata, Ping, Route, TopicInfo, Withdraw


class Session:
    def __init__(
        self,
        bootstrap: Sequence[Address],
        chance: Random,
        options: SessionOptions,
        now_ms: int,
        seen: SeenMetadata | None = None,
    ) -> None:
        self.routes = Routes(bootstrap, chance)
        #: What every broker must know that answers from now on.
        self.seen = seen or SeenMetadata()
        self.timers = Timers()
        #: The time of the last input.
        self.now_ms = now_ms
        self.chance = chance
        self.options = options
        self.is_closed = False
        #: The newest report of a broker's time.
        self.broker_time: BrokerTime | None = None
        #: The name by which brokers know that this process is gone: its undecided transactions end with it.
        self.member = f"client-{chance.getrandbits(64):016x}"
        self._place = chance.getrandbits(16)
        self._links: dict[LinkId, Link] = {}
        self._by_address: dict[Address, Link] = {}
        self._link_count = 0
        #: Every call without a result, in the order of submission.
        self._calls: dict[ClientCall, None] = {}
        #: Calls that wait for metadata.
        self._unrouted: dict[ClientCall, None] = {}
        #: While metadata are requested: the topics, and the brokers that were not asked yet.
        self._asked: list[str] | None = None
        self._untried: list[Address] = []
        #: The next inquiry about suspects.
        self._inquiry: Timer | None = None
        self._actions: list[Action] = []
        self._results: deque[tuple[ClientCall, CallResult]] = deque()
        self._is_settling = False
        #: Called with the address of each connection that ends. They must not call the session.
        self.watchers: list[Callable[[Address], None]] = []
        #: A lower bound of all deadlines of calls and links.
        self._scan_ms = now_ms + options.idle_ms_max

    # For callers.

    def submit(self, call: ClientCall, now_ms: int) -> None:
        self.now_ms = now_ms
        if self.is_closed:
            self._results.append((call, ConnectionClosedError("the client is closed")))
        else:
            self._calls[call] = None
            self._watch(call.deadline_ms)
            self._attempt(call)
        if self._results:
            self._settle()

    def cancel(self, call: ClientCall) -> None:
        """Drops a call: `done` is not called. A broker may still carry it out."""
        self._release(call)
        if self._has_result(call):
            # Of an answer that came together with the one whose `done` runs now.
            self._results = deque([each for each in self._results if each[0] is not call])

    def _has_result(self, call: ClientCall) -> bool:
        return any(each is call for each, _ in self._results)

    def withdraw(self, call: ClientCall, now_ms: int) -> bool:
        """Ends the wait of a long poll. True: its answer comes soon, with the messages that it has leased by then.

        False: no broker has it, and `done` is not called.
        """
        self.now_ms = now_ms
        if self._has_result(call):
            return True
        link = self._links.get(call.link)
        if link is None or not call.is_sent:
            self._release(call)
            return False
        call.is_single = True
        self._end_wait(call, link)
        return True

    def _end_wait(self, call: ClientCall, link: Link) -> None:
        """Asks the broker to answer a long poll now."""
        call.due_ms = min(call.due_ms, self.now_ms)
        deadline_ms = self.now_ms + self.options.answer_ms_max
        request = Withdraw(call.correlation_id)
        withdrawal = ClientCall(request, deadline_ms, _ignore, route=call.route, is_single=True)
        self._calls[withdrawal] = None
        self._watch(deadline_ms)
        self._assign(withdrawal, link.address)

    def topic(self, name: str) -> TopicInfo | None:
        """The description of a topic; None: it is not known here, or the client has seen changes that are newer."""
        if self.routes.described_at.get(name, 0) < self.seen.index:
            return None
        return self.routes.topics.get(name)

    def resolve(
        self,
        topic: str,
        deadline_ms: int,
        done: Callable[[TopicInfo | FlotillaError], None],
        now_ms: int,
        *,
        create: bool = False,
        owner: str = "",
    ) -> None:
        """Describes a topic to `done`. With `create` a missing topic is created, if the cluster allows that.

        `owner` is of nodes only: the user for whom they ask.
        """
        known = self.topic(topic)
        if known is not None:
            done(known)
            return
        old = self.routes.topics.get(topic)
        request = GetMetadata([topic], create, owner=owner)

        def answered(result: CallResult) -> None:
            is_missing = isinstance(result, Metadata) and not result.topics
            if is_missing or isinstance(result, NotFoundError):
                self._ask_controller(request, deadline_ms, concluded)
            else:
                concluded(result)

        def concluded(result: CallResult) -> None:
            if isinstance(result, NotFoundError):
                done(no_topic(topic))
                return
            if isinstance(result, FlotillaError):
                # An old description is better than none.
                done(old or result)
                return
            assert isinstance(result, Metadata)
            self.routes.update(result, [topic])
            done(self.routes.topics.get(topic) or no_topic(topic))

        self.submit(ClientCall(request, deadline_ms, answered), now_ms)

    def _ask_controller(self, request: GetMetadata, deadline_ms: int, done: Callable[[CallResult], None]) -> None:
        """A broker may lag behind; a topic that the controller does not know does not exist."""
        self.submit(ClientCall(request, deadline_ms, done, route=CONTROLLER), self.now_ms)

    def has_open_link(self, address: Address) -> bool:
        link = self._by_address.get(address)
        return link is not None and link.connection.is_open

    def next_place(self) -> int:
        """Consecutive numbers for readers, from a random start."""
        self._place += 1
        return self._place

    def close(self) -> None:
        """Ends every call with its result, and every connection."""
        if self.is_closed:
            return
        self.is_closed = True
        for link in list(self._links.values()):
            self._actions.append(Close(link.link))
        error = ConnectionClosedError("the client was closed before an answer came")
        for call in list(self._calls):
            call.is_unsure = call.is_perhaps_done
            self._finish(call, outcome_unknown(error) if call.is_unsure else error)
        self._links.clear()
        self._by_address.clear()
        self._settle()

    # For the driver.

    def take_actions(self) -> list[Action]:
        """The actions to carry out now, in order; writes to one connection are joined."""
        actions, self._actions = self._actions, []
        for link in self._links.values():
            if link.output:
                actions.append(Write(link.link, link.output))
                link.output = []
        return actions

    @property
    def wake_ms(self) -> int:
        """When `tick` must be called at the latest."""
        next_ms = self.timers.next_ms
        return self._scan_ms if next_ms is None else min(self._scan_ms, next_ms)

    def dialled(self, link: LinkId, now_ms: int, connection: ClientConnection[ClientCall] | None = None) -> None:
        """The link is up. `connection` replaces the protocol in bytes on a local link."""
        self.now_ms = now_ms
        found = self._links.get(link)
        if found is not None:
            found.connection = connection or found.connection
            found.is_dialled = True
            found.greeted_ms = now_ms
            found.output += found.connection.greet(self.options.name, self.options.is_gateway)

    def room(self, link: LinkId) -> memoryview | None:
        """The buffer for the next bytes; None: any buffer, which is passed to `received`."""
        found = self._links.get(link)
        return None if found is None else found.connection.room()

    def received(self, link: LinkId, data: Any, now_ms: int) -> None:
        """Bytes, the count of bytes that were put into room(), or the answers on a local link."""
        self.now_ms = now_ms
        found = self._links.get(link)
        if found is None:
            return
        was_open = found.connection.is_open
        try:
            answered = found.connection.receive(data)
        except FlotillaError as error:
            is_stranger = not was_open and found.connection.is_malformed
            self._drop(found, _stranger(found.address) if is_stranger else _refused(found.address, error))
        else:
            found.heard_ms = now_ms
            found.output += found.connection.take_log_in()
            if found.connection.is_open and not was_open:
                self._welcomed(found)
            self.seen.note(found.connection.metadata_index)
            self.routes.heard(found.address)
            for call, result in answered:
                self._answered(call, result)
            if found.connection.ended is not None and link in self._links:
                self._drop(found, _refused(found.address, found.connection.ended))
            elif found.queue:
                self._send_queued(found)
        self._settle()

    def _welcomed(self, link: Link) -> None:
        self.routes.measured(link.address, self.now_ms - link.greeted_ms)
        self.seen.joined(link.connection.cluster_id)
        time_ms = link.connection.welcomed_ms
        if time_ms:
            self.broker_time = BrokerTime(link.address, time_ms, link.greeted_ms)

    def lost(self, link: LinkId, reason: str, now_ms: int) -> None:
        """The connection ended, or could not be made."""
        self.now_ms = now_ms
        found = self._links.get(link)
        if found is not None:
            what = "was lost" if found.connection.is_open else "cannot be made"
            error = UnavailableError(f"the connection to {found.address} {what}: {reason or 'closed by the broker'}")
            self._drop(found, error, is_gone=True)
            self._settle()

    def tick(self, now_ms: int) -> None:
        """Handles what is due. Report everything that was received before."""
        self.now_ms = now_ms
        self.timers.run(now_ms)
        if now_ms >= self._scan_ms:
            self._scan()
        self._settle()

    # Routing.

    def _attempt(self, call: ClientCall) -> None:
        if call not in self._calls:
            return
        address = self._any_address(call) if call.route == ANY else self.routes.find(call.route)
        if address is None:
            self._unrouted[call] = None
            self._refresh()
        else:
            self._assign(call, address)

    def _any_address(self, call: ClientCall) -> Address:
        """The best one, and another one for a call to which the last one knew too little, or had no cluster."""
        askable = self._askable()
        is_ignorant = isinstance(call.last_error, (ReplicaBehindError, UnavailableError))
        return askable[call.attempts % len(askable) if is_ignorant else 0]

    def _askable(self) -> list[Address]:
        """All addresses, in the order in which to ask them for metadata."""
        opened = [link.address for link in self._links.values() if link.connection.is_open]
        return sorted(dict.fromkeys([*opened, *self.routes.candidates()]), key=self.routes.suspects.__contains__)

    def _assign(self, call: ClientCall, address: Address) -> None:
        link = self._by_address.get(address)
        if link is None:
            link = self._dial(address)
        call.link = link.link
        link.queue[call] = None
        self._send_queued(link)
        if address in self.routes.suspects:
            self._inquire()

    def _dial(self, address: Address) -> Link:
        self._link_count += 1
        open_by_ms = self.now_ms + self.options.connect_ms_max
        link = Link(self._link_count, address, self.now_ms, open_by_ms, self.options.credentials)
        self._links[link.link] = link
        self._by_address[address] = link
        self._actions.append(Dial(link.link, address))
        self._watch(min(link.open_by_ms, self.now_ms + self.options.suspect_ms))
        return link

    def _send_queued(self, link: Link) -> None:
        connection = link.connection
        while link.queue and connection.has_room:
            call = next(iter(link.queue))
            del link.queue[call]
            try:
                needed = max(self.seen.index, call.metadata_index)
                call.correlation_id, frame = connection.send(call.request, call, needed)
            except InvalidArgumentError as error:
                self._finish(call, call.final_error(error))
                continue
            call.is_sent = True
            call.due_ms = self.now_ms + call.wait_ms
            call.answer_by_ms = call.due_ms + self.options.answer_ms_max
            self._watch(self.now_ms + (self.options.ping_ms if call.wait_ms else self.options.suspect_ms))
            link.output += frame

    # Results.

    def _answered(self, call: ClientCall, result: CallResult) -> None:
        request = call.request
        if isinstance(result, request.reply):
            # The connection has forgotten it.
            call.link = 0
            self._finish(call, result)
            return
        if not isinstance(result, FlotillaError):
            result = UnknownError(f"{type(request).__name__} was answered with {type(result).__name__}")
        if isinstance(result, NotLeaderError):
            self.routes.redirect(call.route, result.address)
        elif isinstance(result, NotFoundError) and call.route.topic:
            # This broker may lag behind. The leader is looked up again before the next attempt.
            self.routes.doubt(call.route, self._links[call.link].address)
        self._failed(call, result)

    def _failed(self, call: ClientCall, error: FlotillaError, *, is_unsure: bool = False) -> None:
        """An attempt ended without a reply."""
        call.failed(error, is_unsure=is_unsure)
        self._unrouted.pop(call, None)
        if call.is_single:
            self._finish(call, error)
        elif not call.may_repeat(error):
            self._finish(call, call.final_error(error))
        else:
            delay_ms = self.options.backoff.delay_ms(call.attempts, error, self.chance)
            if delay_ms:
                self.timers.at(self.now_ms + delay_ms, lambda: self._attempt(call))
            else:
                self._attempt(call)

    def _drop(self, link: Link, error: FlotillaError, *, is_gone: bool = False) -> None:
        """Removes a connection: its calls are retried elsewhere."""
        del self._links[link.link]
        del self._by_address[link.address]
        self.routes.missed(link.address)
        if not is_gone:
            self._actions.append(Close(link.link))
        sent = link.connection.pending()
        queued = list(link.queue)
        for call in (*sent, *queued):
            self.routes.doubt(call.route, link.address)
        for call in sent:
            self._failed(call, error, is_unsure=True)
        for call in queued:
            self._failed(call, error)
        for watcher in self.watchers:
            watcher(link.address)

    def _finish(self, call: ClientCall, result: CallResult) -> None:
        self._release(call)
        self._results.append((call, result))

    def _release(self, call: ClientCall) -> None:
        """Removes the call from every collection."""
        self._calls.pop(call, None)
        self._unrouted.pop(call, None)
        if call.link:
            self._withdraw(call)
        call.link = 0
        call.is_sent = False

    def _withdraw(self, call: ClientCall) -> None:
        """Abandons the attempt in flight."""
        link = self._links.get(call.link)
        if link is not None:
            link.queue.pop(call, None)
            if call.is_sent:
                link.connection.forget(call.correlation_id)
                link.orphans[call.correlation_id] = call.due_ms

    def _settle(self) -> None:
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._results or self.routes.moved:
                if self._results:
                    call, result = self._results.popleft()
                    call.done(result)
                else:
                    self._follow_leaders()
        finally:
            self._is_settling = False

    # Metadata.

    def _refresh(self) -> None:
        """Asks one broker after the other until one answers, for the calls without a route."""
        if self._asked is not None or not self._unrouted:
            return
        self._asked = list(dict.fromkeys(call.route.topic for call in self._unrouted if call.route.topic))
        self._untried = self._askable()
        self._ask_next()

    def _ask_next(self, timeout_ms: int | None = None) -> None:
        assert self._asked is not None
        address = self._untried.pop(0)
        deadline_ms = self.now_ms + (timeout_ms or self.options.answer_ms_max)
        call = ClientCall(GetMetadata(self._asked), deadline_ms, self._on_metadata, is_single=True)
        self._calls[call] = None
        self._watch(deadline_ms)
        self._assign(call, address)

    def _on_metadata(self, result: CallResult) -> None:
        assert self._asked is not None
        if self.is_closed:
            return
        if isinstance(result, FlotillaError):
            if self._untried:
                self._ask_next()
                return
            self._asked = None
            for call in list(self._unrouted):
                self._failed(call, result)
            return
        assert isinstance(result, Metadata)
        asked, self._asked = self._asked, None
        self.routes.update(result, asked)
        self._leave_suspects()
        for call in list(self._unrouted):
            # A call that came while the request was in flight may need another one.
            if not call.route.topic or call.route.topic in asked:
                del self._unrouted[call]
                self._route_again(call)
        self._refresh()

    def _route_again(self, call: ClientCall) -> None:
        address = self.routes.find(call.route)
        if address is None and call.route == CONTROLLER:
            # Any broker forwards it, or names the leader by now.
            address = self._any_address(call)
        if address is not None:
            self._assign(call, address)
        elif call.route.topic and call.route.topic not in self.routes.topics:
            self._confirm_missing(call)
        else:
            self._failed(call, self._route_error(call.route))

    def _confirm_missing(self, call: ClientCall) -> None:
        """Asks the controller whether the topic of a call exists."""
        topic = call.route.topic

        def concluded(result: CallResult) -> None:
            if isinstance(result, Metadata):
                self.routes.update(result, [topic])
            if call not in self._calls:
                return
            address = self.routes.find(call.route)
            if address is not None:
                self._assign(call, address)
            else:
                self._failed(call, result if isinstance(result, FlotillaError) else self._route_error(call.route))

        self._ask_controller(GetMetadata([topic]), call.deadline_ms, concluded)

    def _route_error(self, route: Route) -> FlotillaError:
        topic = self.routes.topics.get(route.topic)
        if topic is None:
            return no_topic(route.topic)
        if route.partition not in [part.number for part in topic.partitions]:
            return NotFoundError(
                f"topic {route.topic!r} has no partition {route.partition}, only {len(topic.partitions)} of them"
            )
        return NotLeaderError()

    # Suspects.

    def _suspect(self, link: Link) -> None:
        self.routes.suspects[link.address] = None
        if self._askable()[0] not in self.routes.suspects:
            error = UnavailableError(f"the broker at {link.address} is silent")
            for call in link.calls():
                if (call.route == ANY or call.route.replica) and call.effect == READ:
                    self._withdraw(call)
                    self._failed(call, error)
        self._inquire()

    def _inquire(self) -> None:
        """While calls wait for a suspect, asks another broker for the leaders of their routes."""
        routes = [call.route for link in self._links.values() if self._is_suspect(link) for call in link.calls()]
        if self._inquiry is not None or not any(route != ANY for route in routes):
            return
        delay_ms = self.chance.randint(self.options.inquiry_ms // 2, self.options.inquiry_ms)
        self._inquiry = self.timers.at(self.now_ms + delay_ms, self._on_inquiry)
        others = [address for address in self._askable() if address not in self.routes.suspects]
        if not others:
            # Suspects without a connection may have recovered: nothing was sent to them since.
            silent = {link.address for link in self._links.values() if self._is_suspect(link)}
            others = [address for address in self._askable() if address not in silent]
        if others and self._asked is None:
            # A random one: always the same broker might lag behind, or be silent, too.
            self._asked = list(dict.fromkeys([route.topic for route in routes if route.topic]))
            self._untried = [self.chance.choice(others)]
            self._ask_next(self.options.suspect_ms)

    def _on_inquiry(self) -> None:
        self._inquiry = None
        self._inquire()

    def _is_suspect(self, link: Link) -> bool:
        return link.address in self.routes.suspects

    def _leave_suspects(self) -> None:
        """Drops the connections to suspects that others have replaced; their calls are retried where that is safe."""
        for link in [link for link in self._links.values() if self._is_suspect(link)]:
            leaders = [self.routes.find(call.route) for call in link.calls()]
            if any(leader not in (None, link.address) for leader in leaders):
                self._drop(link, UnavailableError(f"the broker at {link.address} is silent, and another leads"))

    def _follow_leaders(self) -> None:
        """Ends long polls at brokers that no longer lead. A poll of a queue is answered with what it has leased."""
        moved, self.routes.moved = self.routes.moved, {}
        for call in [call for call in self._calls if call.route in moved and call.is_sent]:
            link, leader = self._links.get(call.link), self.routes.find(call.route)
            if link is None or leader in (None, link.address) or call.due_ms <= self.now_ms:
                continue
            self._end_wait(call, link)
            if not call.is_single:
                self._withdraw(call)
                self._failed(call, NotLeaderError(address=str(leader)))

    # Time.

    def _watch(self, when_ms: int) -> None:
        if when_ms < self._scan_ms:
            self._scan_ms = when_ms

    def _scan(self) -> None:
        """Ends everything that is overdue, and finds the time of the next scan."""
        now_ms = self.now_ms
        self._scan_ms = now_ms + self.options.idle_ms_max
        silent = [call.link for call in self._calls if call.is_sent and call.answer_by_ms <= now_ms]
        for link_id in dict.fromkeys(silent):
            link = self._links[link_id]
            self._drop(link, UnavailableError(f"the broker at {link.address} does not answer"))
        for call in list(self._calls):
            if call.deadline_ms <= now_ms:
                call.last_error = call.last_error or self._silence()
                self._finish(call, call.overdue())
            else:
                self._watch(call.deadline_ms)
                if call.is_sent:
                    self._watch(call.answer_by_ms)
        for link in list(self._links.values()):
            if link.link in self._links:
                self._scan_link(link)

    def _silence(self) -> FlotillaError | None:
        return next(filter(None, [link.silence for link in self._links.values()]), None)

    def _scan_link(self, link: Link) -> None:
        owed_ms = link.owed_ms
        if owed_ms is None:
            if self._is_over(link.heard_ms + self.options.idle_ms_max):
                self._drop(link, UnavailableError("idle"))
            return
        answer_by_ms = owed_ms + self.options.answer_ms_max if link.connection.is_open else link.open_by_ms
        if self._is_over(answer_by_ms):
            error = link.silence or UnavailableError(f"the broker at {link.address} does not answer in time")
            self._drop(link, error)
        elif not self._is_suspect(link) and self._is_over(owed_ms + self.options.suspect_ms):
            self._suspect(link)
        elif owed_ms > self.now_ms and self._is_over(link.heard_ms + self.options.ping_ms):
            self._ping(link)

    def _ping(self, link: Link) -> None:
        """Makes an answer due on a silent connection. Its broker is a suspect `suspect_ms` after it was heard last."""
        if not link.connection.has_room_for_ping:
            return
        deadline_ms = self.now_ms + self.options.answer_ms_max
        ping = ClientCall(Ping(), deadline_ms, _ignore, route=ANY, is_single=True)
        self._calls[ping] = None
        ping.link = link.link
        ping.correlation_id, frame = link.connection.send(ping.request, ping)
        ping.is_sent = True
        # Not since the broker was heard: this process may have been paused, and then the answer takes its time.
        ping.due_ms = self.now_ms - self.options.ping_ms
        ping.answer_by_ms = deadline_ms
        self._watch(ping.due_ms + self.options.suspect_ms)
        link.output += frame

    def _is_over(self, when_ms: int) -> bool:
        """Whether this time has come; if not, a scan is due then."""
        if when_ms > self.now_ms:
            self._watch(when_ms)
        return when_ms <= self.now_ms


def _ignore(result: CallResult) -> None:
    """Only that the broker answers matters, and the connection notes that."""


def no_topic(name: str) -> NotFoundError:
    return NotFoundError(f"there is no topic {name!r}; create it first")


def _stranger(address: Address) -> UnavailableError:
    return UnavailableError(f"something that is not a Flotilla broker answers at {address}")


def _refused(address: Address, error: FlotillaError) -> FlotillaError:
    """The error with which a broker ends a connection, as one that allows a retry: it is not about the call."""
    if error.retryable or isinstance(error, QuotaExceededError | UnauthenticatedError):
        return error
    return UnavailableError(f"the broker at {address} ended the connection: {error}")
