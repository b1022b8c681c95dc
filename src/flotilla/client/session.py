"""The client's side of a cluster without sockets or clock: calls in, connections and outcomes out.

Finds out who leads what, keeps one connection per broker, sends each call to where it belongs, and tries
again what may be tried again until its deadline. Whoever drives it carries out its actions (dial, write,
close), reports what came of them, and calls `tick` when the time of `wake_ms` has come.

Every input brings the time. A call is in `_calls` from `submit` until its outcome is decided, whatever else
holds it; outcomes are handed out at the end of an input, when everything is consistent again, so that
`done` may submit the next call.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from flotilla.client.backoff import Backoff
from flotilla.client.calls import REPLIES, Call, Outcome, outcome_unknown
from flotilla.client.links import Action, Close, Dial, Link, LinkId, Write
from flotilla.client.routes import ANY, CONTROLLER, Route, Routes
from flotilla.client.timers import Timers
from flotilla.types.address import Address
from flotilla.types.errors import (
    ConnectionClosedError,
    FlotillaError,
    InvalidArgumentError,
    NotFoundError,
    NotLeaderError,
    UnavailableError,
    UnknownError,
)
from flotilla.types.limits import IDLE_MS_MAX
from flotilla.types.operations import GetMetadata, Metadata, TopicInfo


@dataclass(frozen=True, slots=True)
class SessionOptions:
    #: Name and version of the client, for people at the other side.
    name: str = ""
    backoff: Backoff = field(default_factory=Backoff)
    #: From dialling to Welcome.
    connect_ms_max: int = 5_000
    #: Beyond what a request asks the broker to wait. A broker that is silent for longer is taken for dead.
    answer_ms_max: int = 10_000
    #: A connection that carries nothing for so long is closed, well before the broker does.
    idle_ms_max: int = IDLE_MS_MAX // 2


class Session:
    def __init__(self, bootstrap: Sequence[Address], chance: Random, options: SessionOptions, now_ms: int) -> None:
        self.routes = Routes(bootstrap, chance)
        self.timers = Timers()
        #: The time of the last input.
        self.now_ms = now_ms
        self.chance = chance
        self.options = options
        self.is_closed = False
        self._links: dict[LinkId, Link] = {}
        self._by_address: dict[Address, Link] = {}
        self._link_count = 0
        #: Every call without an outcome, in the order of submission.
        self._calls: dict[Call, None] = {}
        #: Those that wait for metadata.
        self._unrouted: dict[Call, None] = {}
        #: While metadata are asked for: about which topics, and who can still be asked.
        self._asked: list[str] | None = None
        self._untried: list[Address] = []
        self._actions: list[Action] = []
        self._outcomes: deque[tuple[Call, Outcome]] = deque()
        self._is_settling = False
        #: No deadline of a call or link lies before this. It may be too early, never too late.
        self._scan_ms = now_ms + options.idle_ms_max

    # What callers do.

    def submit(self, call: Call, now_ms: int) -> None:
        self.now_ms = now_ms
        if self.is_closed:
            self._outcomes.append((call, ConnectionClosedError("the client is closed")))
        else:
            self._calls[call] = None
            self._watch(call.deadline_ms)
            self._attempt(call)
        self._settle()

    def cancel(self, call: Call) -> None:
        """Nobody waits for it any more: `done` is not called. A broker may carry it out all the same."""
        self._release(call)

    def resolve(
        self,
        topic: str,
        deadline_ms: int,
        done: Callable[[TopicInfo | FlotillaError], None],
        now_ms: int,
        *,
        create: bool = False,
    ) -> None:
        """What a topic looks like. With `create` it comes to be if it is missing and the cluster allows that."""
        known = self.routes.topics.get(topic)
        if known is not None:
            done(known)
            return

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Metadata) and not outcome.topics and not create:
                # This broker may lag behind; what the controller does not know does not exist.
                self.submit(Call(GetMetadata([topic]), CONTROLLER, deadline_ms, concluded), self.now_ms)
            else:
                concluded(outcome)

        def concluded(outcome: Outcome) -> None:
            if isinstance(outcome, FlotillaError):
                done(outcome)
                return
            assert isinstance(outcome, Metadata)
            self.routes.update(outcome, [topic])
            done(self.routes.topics.get(topic) or no_topic(topic))

        self.submit(Call(GetMetadata([topic], create), ANY, deadline_ms, answered), now_ms)

    def close(self) -> None:
        """Ends everything now: each call gets its outcome, each connection goes."""
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

    # What the driver does and reports.

    def take_actions(self) -> list[Action]:
        """Everything to be done now, in order; writes to one connection are joined."""
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

    def dialled(self, link: LinkId, now_ms: int) -> None:
        self.now_ms = now_ms
        found = self._links.get(link)
        if found is not None:
            found.output += found.connection.greet(self.options.name)

    def received(self, link: LinkId, data: bytes | memoryview, now_ms: int) -> None:
        self.now_ms = now_ms
        found = self._links.get(link)
        if found is None:
            return
        try:
            answered = found.connection.receive(data)
        except FlotillaError as error:
            self._drop(found, _refused(found.address, error))
        else:
            found.used_ms = now_ms
            for call, outcome in answered:
                self._answered(call, outcome)
            self._send_queued(found)
        self._settle()

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
        """Does what is due. Whatever was received before is to be reported before."""
        self.now_ms = now_ms
        self.timers.run(now_ms)
        if now_ms >= self._scan_ms:
            self._scan()
        self._settle()

    # Where calls go.

    def _attempt(self, call: Call) -> None:
        if call not in self._calls:
            return
        address = self._any_address() if call.route == ANY else self.routes.find(call.route)
        if address is None:
            self._unrouted[call] = None
            self._refresh()
        else:
            self._assign(call, address)

    def _any_address(self) -> Address:
        for link in self._links.values():
            if link.connection.is_open:
                return link.address
        return self.routes.candidates()[0]

    def _assign(self, call: Call, address: Address) -> None:
        link = self._by_address.get(address)
        if link is None:
            link = self._dial(address)
        call.link = link.link
        link.queue[call] = None
        self._send_queued(link)

    def _dial(self, address: Address) -> Link:
        self._link_count += 1
        link = Link(self._link_count, address, self.now_ms + self.options.connect_ms_max)
        link.used_ms = self.now_ms
        self._links[link.link] = link
        self._by_address[address] = link
        self._actions.append(Dial(link.link, address))
        self._watch(link.open_by_ms)
        return link

    def _send_queued(self, link: Link) -> None:
        connection = link.connection
        while link.queue and connection.has_room:
            call = next(iter(link.queue))
            del link.queue[call]
            try:
                call.correlation_id, frame = connection.send(call.request, call)
            except InvalidArgumentError as error:
                self._finish(call, call.verdict(error))
                continue
            call.is_sent = True
            call.answer_by_ms = self.now_ms + self.options.answer_ms_max + call.wait_ms
            self._watch(call.answer_by_ms)
            link.output += frame

    # What became of them.

    def _answered(self, call: Call, outcome: Outcome) -> None:
        request = call.request
        if isinstance(request, GetMetadata) and request.create and isinstance(outcome, Metadata) and not outcome.topics:
            # It is on its way, or this cluster makes no topics by itself: asking again will show.
            outcome = no_topic(request.topics[0])
        if isinstance(outcome, REPLIES[type(request)]):
            call.is_sent = False
            self._finish(call, outcome)
            return
        if not isinstance(outcome, FlotillaError):
            outcome = UnknownError(f"{type(request).__name__} was answered with {type(outcome).__name__}")
        if isinstance(outcome, NotLeaderError):
            self.routes.redirect(call.route, outcome.address)
        elif isinstance(outcome, NotFoundError) and call.route.topic:
            # Perhaps the broker knows less than others. Who leads is asked for again before the next attempt.
            self.routes.doubt(call.route)
        self._failed(call, outcome)

    def _failed(self, call: Call, error: FlotillaError, *, is_unsure: bool = False) -> None:
        """An attempt ended without a reply."""
        call.failed(error, is_unsure=is_unsure)
        self._unrouted.pop(call, None)
        if call.is_single:
            self._finish(call, error)
        elif not call.may_repeat(error):
            self._finish(call, call.verdict(error))
        else:
            delay_ms = self.options.backoff.delay_ms(call.attempts, error, self.chance)
            if delay_ms:
                self.timers.at(self.now_ms + delay_ms, lambda: self._attempt(call))
            else:
                self._attempt(call)

    def _drop(self, link: Link, error: FlotillaError, *, is_gone: bool = False) -> None:
        """A connection is over: whatever it held must find another way."""
        del self._links[link.link]
        del self._by_address[link.address]
        if not is_gone:
            self._actions.append(Close(link.link))
        sent = link.connection.pending()
        queued = list(link.queue)
        for call in (*sent, *queued):
            self.routes.doubt(call.route)
        for call in sent:
            self._failed(call, error, is_unsure=True)
        for call in queued:
            self._failed(call, error)

    def _finish(self, call: Call, outcome: Outcome) -> None:
        self._release(call)
        self._outcomes.append((call, outcome))

    def _release(self, call: Call) -> None:
        """Takes the call out of everything that holds it."""
        self._calls.pop(call, None)
        self._unrouted.pop(call, None)
        link = self._links.get(call.link)
        if link is not None:
            link.queue.pop(call, None)
            if call.is_sent:
                link.connection.forget(call.correlation_id)
        call.link = 0
        call.is_sent = False

    def _settle(self) -> None:
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._outcomes:
                call, outcome = self._outcomes.popleft()
                call.done(outcome)
        finally:
            self._is_settling = False

    # Metadata.

    def _refresh(self) -> None:
        """Asks one broker after the other until one answers, for the sake of the calls that wait."""
        if self._asked is not None or not self._unrouted:
            return
        self._asked = list(dict.fromkeys(call.route.topic for call in self._unrouted if call.route.topic))
        opened = [link.address for link in self._links.values() if link.connection.is_open]
        self._untried = list(dict.fromkeys([*opened, *self.routes.candidates()]))
        self._ask_next()

    def _ask_next(self) -> None:
        assert self._asked is not None
        address = self._untried.pop(0)
        deadline_ms = self.now_ms + self.options.answer_ms_max
        call = Call(GetMetadata(self._asked), ANY, deadline_ms, self._on_metadata, is_single=True)
        self._calls[call] = None
        self._watch(deadline_ms)
        self._assign(call, address)

    def _on_metadata(self, outcome: Outcome) -> None:
        assert self._asked is not None
        if self.is_closed:
            return
        if isinstance(outcome, FlotillaError):
            if self._untried:
                self._ask_next()
                return
            self._asked = None
            for call in list(self._unrouted):
                self._failed(call, outcome)
            return
        assert isinstance(outcome, Metadata)
        asked, self._asked = self._asked, None
        self.routes.update(outcome, asked)
        for call in list(self._unrouted):
            # One that came while the question was under way may need another one.
            if not call.route.topic or call.route.topic in asked:
                del self._unrouted[call]
                self._route_again(call)
        self._refresh()

    def _route_again(self, call: Call) -> None:
        address = self.routes.find(call.route)
        if address is None and call.route == CONTROLLER:
            # Any broker passes it on, or says who leads by now.
            address = self._any_address()
        if address is not None:
            self._assign(call, address)
        else:
            self._failed(call, self._why_nowhere(call.route))

    def _why_nowhere(self, route: Route) -> FlotillaError:
        topic = self.routes.topics.get(route.topic)
        if topic is None:
            return no_topic(route.topic)
        if route.partition not in [part.number for part in topic.partitions]:
            return InvalidArgumentError(f"topic {route.topic} has {len(topic.partitions)} partitions")
        return NotLeaderError()

    # Time.

    def _watch(self, when_ms: int) -> None:
        if when_ms < self._scan_ms:
            self._scan_ms = when_ms

    def _scan(self) -> None:
        """Ends what is overdue and finds out when to look again."""
        now_ms = self.now_ms
        self._scan_ms = now_ms + self.options.idle_ms_max
        silent = [call.link for call in self._calls if call.is_sent and call.answer_by_ms <= now_ms]
        for link_id in dict.fromkeys(silent):
            link = self._links[link_id]
            self._drop(link, UnavailableError(f"the broker at {link.address} does not answer"))
        for link in list(self._links.values()):
            self._scan_link(link)
        for call in list(self._calls):
            if call.deadline_ms <= now_ms:
                self._finish(call, call.overdue())
            else:
                self._watch(call.deadline_ms)
                if call.is_sent:
                    self._watch(call.answer_by_ms)

    def _scan_link(self, link: Link) -> None:
        connection = link.connection
        if not connection.is_open:
            if link.open_by_ms <= self.now_ms:
                self._drop(link, UnavailableError(f"the broker at {link.address} does not answer in time"))
            else:
                self._watch(link.open_by_ms)
        elif not connection.request_count and not link.queue:
            idle_until_ms = link.used_ms + self.options.idle_ms_max
            if idle_until_ms <= self.now_ms:
                self._drop(link, UnavailableError("idle"))
            else:
                self._watch(idle_until_ms)


def no_topic(name: str) -> NotFoundError:
    return NotFoundError(f"there is no topic {name!r}; create it first")


def _refused(address: Address, error: FlotillaError) -> FlotillaError:
    """What a broker says when it ends a connection concerns the connection, not the call: it may be tried again."""
    if error.retryable:
        return error
    return UnavailableError(f"the broker at {address} ended the connection: {error}")
