"""Polls of a queue consumer: one per leader, for all partitions that it leads.

Known leaders may be out of date. The leader of a partition whose poll failed is forgotten, and the partition is polled
alone, which makes the session find the new leader. Metadata are refreshed now and then, which also shows partitions
that the topic has got since. A partition is covered while a poll for it is in flight at its known leader.

A round polls the leaders one after another without waiting, each round from another one, so that none is neglected; a
leader that just had nothing comes last for a moment. When none has messages, a long poll is parked at each. The owner
buffers the answers of polls that it did not need.
"""

from collections.abc import Callable, Sequence

from flotilla.client._core.backoff import doubled_ms
from flotilla.client._core.calls import CallResult, ClientCall, is_passing
from flotilla.client._core.session import Session
from flotilla.client.queue._lag import KnownLag
from flotilla.types.address import Address
from flotilla.types.errors import FlotillaError, NotLeaderError, TopicReplacedError, UnavailableError
from flotilla.types.operations import GetMetadata, LeaveQueue, Metadata, Poll, Polled, Route
from flotilla.types.slotted import slotted

#: How long a consumer that is closed waits for the leaders that it leaves.
LEAVE_MS_MAX = 1_000
#: How often metadata are refreshed while polling.
REFRESH_MS = 10_000
#: The pause of a leader that answers a long poll with nothing at once, doubling.
_PAUSE_MS = 20
_PAUSE_MS_MAX = 500
#: How long a leader that had nothing is polled last. Where all messages are in one partition, a quick consumer would
#: else poll each of the other leaders with every poll.
_DRY_MS = 100


@slotted
class _PollInFlight:
    """What a poll asks for, and where."""

    leader: Address | None
    partitions: list[int]
    messages: int
    wait_ms: int
    sent_ms: int


@slotted
class _Failures:
    """Consecutive failed or hasty answers: since when, how many, and until when to pause.

    `since_ms` moves on by the time in which a leader held a poll.
    """

    since_ms: int
    count: int = 0
    pause_ms: int = 0


class Polls:
    def __init__(
        self,
        session: Session,
        topic: str,
        partitions: Sequence[int] | None,
        *,
        request: Callable[[list[int], int, int], Poll],
        arrived: Callable[[Polled], None],
        failed: Callable[[FlotillaError], None],
        answered: Callable[[int], None],
        moved: Callable[[int], None],
        timeout_ms: int,
        rotation: int = 0,
    ) -> None:
        """`partitions`: None is all of the topic. `request` makes a poll of partitions, messages and wait.

        `answered` gets each partition of an answer, `moved` each that has another leader now, and `failed` an error
        that retrying does not cure. `rotation` is the position of the leader to poll first.
        """
        self._session = session
        self._topic = topic
        self._chosen = partitions
        self._request = request
        self._arrived = arrived
        self._failed = failed
        self._answered = answered
        self._moved = moved
        self._timeout_ms = timeout_ms
        self._partitions: list[int] = []
        self.lag = KnownLag()
        self._in_flight: dict[ClientCall, _PollInFlight] = {}
        self._failures: dict[int, _Failures] = {}
        #: Until when partitions are polled last, because their leader had nothing.
        self._dry_until_ms: dict[int, int] = {}
        #: Partitions that are still to be polled in this round.
        self._round: dict[int, None] = {}
        self._rotation = rotation
        #: The leaders that were polled: to them the consumer is a member.
        self._met: dict[Address, None] = {}
        #: Answers to `leave` that are missing.
        self._leaving = 0
        self._refreshed_ms = session.now_ms
        self._is_refreshing = False
        self.adapt()

    @property
    def messages_in_flight(self) -> int:
        """How many messages the polls in flight may bring."""
        return sum([asked.messages for asked in self._in_flight.values()])

    @property
    def is_idle(self) -> bool:
        return not self._in_flight

    @property
    def is_searching(self) -> bool:
        """A round is not over: leaders are still polled without waiting."""
        return bool(self._round) or any(not asked.wait_ms for asked in self._in_flight.values())

    @property
    def leader_count(self) -> int:
        """The count of leaders of all partitions; each partition without a known leader counts as one."""
        find = self._session.routes.find
        leaders = [find(Route(self._topic, number)) for number in self._partitions]
        return len(dict.fromkeys(number if leader is None else leader for number, leader in enumerate(leaders)))

    @property
    def next_ms(self) -> int | None:
        """When the pause of a partition ends."""
        if not self._failures:
            return None
        now_ms = self._session.now_ms
        return min([each.pause_ms for each in self._failures.values() if each.pause_ms > now_ms], default=None)

    @property
    def is_leaving(self) -> bool:
        """A leader has not answered that the consumer has left."""
        return self._leaving > 0

    def leave(self, group: str, member: str, ended: Callable[[], None]) -> None:
        """Tells the leaders that the consumer is closed. One that cannot be reached now notices the lost connection."""
        session = self._session
        told: dict[Address, None] = {}

        def returned(_: CallResult) -> None:
            self._leaving -= 1
            ended()

        for number in self._partitions:
            route = Route(self._topic, number)
            leader = session.routes.find(route)
            if leader is None or leader in told or leader not in self._met or not session.has_open_link(leader):
                continue
            told[leader] = None
            self._leaving += 1
            request = LeaveQueue(self._topic, group, member, number)
            call = ClientCall(request, session.now_ms + LEAVE_MS_MAX, returned, is_single=True)
            session.submit(call, session.now_ms)

    @property
    def topic_id(self) -> int:
        """Of the topic that is polled; 0: not known, because it was deleted and perhaps created again."""
        topic = self._session.routes.topics.get(self._topic)
        return 0 if topic is None else topic.topic_id

    def adapt(self) -> None:
        """Takes over the partitions of the topic, which may have grown."""
        topic = self._session.routes.topics.get(self._topic)
        if topic is not None:
            numbers = [part.number for part in topic.partitions]
            self._partitions = numbers if self._chosen is None else list(self._chosen)

    def begin_round(self) -> None:
        """Begins a round with the next leader."""
        self._rotation += 1
        self._round = dict.fromkeys(self._partitions)

    def end_round(self) -> None:
        """From now on the owner polls all the time, without rounds."""
        self._round = {}

    def ask(self, messages: int, wait_ms: int, *, is_shared: bool) -> None:
        """Polls leaders without a poll in flight: for `messages` in all if `is_shared`, else for as many of each.

        `is_shared` is for an owner that polls all the time, without rounds.
        """
        self._refresh()
        groups = self._uncovered()
        if is_shared:
            self._rotation += 1
            for position, group in enumerate(groups):
                # At least one of each, so that no leader is neglected.
                self._send(group, max((messages + position) // len(groups), 1), wait_ms)
            return
        if self._round and (len(groups) > 1 or not wait_ms):
            for group in sorted(groups, key=self._is_dry):
                unasked = [number for number in group if number in self._round]
                if unasked:
                    self._round = {number: None for number in self._round if number not in unasked}
                    self._send(unasked, messages, 0)
                    return
        self._round = {}
        if wait_ms and not self.is_searching:
            for group in groups:
                self._send(group, messages, wait_ms)

    def withdraw(self) -> None:
        """Ends all polls. Messages that are leased by then still arrive."""
        session = self._session
        for call in list(self._in_flight):
            if not session.withdraw(call, session.now_ms):
                del self._in_flight[call]

    def _uncovered(self) -> list[list[int]]:
        """Partitions without a poll in flight, by leader."""
        find = self._session.routes.find
        covered: dict[int, None] = {}
        for asked in self._in_flight.values():
            for number in asked.partitions:
                if asked.leader is None or find(Route(self._topic, number)) in (asked.leader, None):
                    covered[number] = None
        groups: dict[Address | int, list[int]] = {}
        for number in self._partitions:
            if number in covered or self._is_paused(number):
                continue
            leader = find(Route(self._topic, number))
            groups.setdefault(number if leader is None else leader, []).append(number)
        found = list(groups.values())
        first = self._rotation % len(found) if found else 0
        return found[first:] + found[:first]

    def _is_dry(self, partitions: list[int]) -> bool:
        now_ms = self._session.now_ms
        return all(self._dry_until_ms.get(number, 0) > now_ms for number in partitions)

    def _is_paused(self, number: int) -> bool:
        failures = self._failures.get(number)
        return failures is not None and failures.pause_ms > self._session.now_ms

    def _send(self, partitions: list[int], messages: int, wait_ms: int) -> None:
        session = self._session
        route = Route(self._topic, partitions[0])
        request = self._request(partitions, messages, wait_ms)
        deadline_ms = session.now_ms + wait_ms + self._timeout_ms
        asked = _PollInFlight(session.routes.find(route), partitions, messages, wait_ms, session.now_ms)
        call = ClientCall(
            request, deadline_ms, lambda result: self._returned(call, result), route=route, is_single=True
        )
        self._in_flight[call] = asked
        self._meet(asked.leader)
        session.submit(call, session.now_ms)

    def _meet(self, leader: Address | None) -> None:
        if leader is not None:
            self._met[leader] = None

    def _returned(self, call: ClientCall, result: CallResult) -> None:
        asked = self._in_flight.pop(call)
        if isinstance(result, FlotillaError):
            self._note_failure(asked, result)
        else:
            assert isinstance(result, Polled)
            self._note_answer(asked, result)
            self._arrived(result)

    def _note_answer(self, asked: _PollInFlight, polled: Polled) -> None:
        now_ms = self._session.now_ms
        if polled.lag >= 0:
            self.lag.learn(asked.partitions, polled.lag)
        is_hasty = not polled.deliveries and now_ms - asked.sent_ms < asked.wait_ms // 2
        for number in asked.partitions:
            self._answered(number)
            self._meet(self._session.routes.find(Route(self._topic, number)))
            if not polled.deliveries:
                self._dry_until_ms[number] = now_ms + _DRY_MS
            elif self._dry_until_ms:
                self._dry_until_ms.pop(number, None)
            if polled.retry_after_ms or is_hasty:
                failures = self._failures.setdefault(number, _Failures(now_ms))
                failures.count += 1
                pause_ms = doubled_ms(_PAUSE_MS, failures.count, _PAUSE_MS_MAX)
                failures.pause_ms = now_ms + max(polled.retry_after_ms, pause_ms)
            else:
                self._failures.pop(number, None)

    def _note_failure(self, asked: _PollInFlight, error: FlotillaError) -> None:
        session = self._session
        if isinstance(error, TopicReplacedError):
            self._begin_anew()
            return
        is_lasting = False
        # A broker that does not lead answers at once: this one led, and held the poll, until it answered.
        is_held = asked.wait_ms > 0 and isinstance(error, NotLeaderError)
        for number in asked.partitions:
            self._doubt(number, asked, error)
            failures = self._failures.setdefault(number, _Failures(asked.sent_ms if is_held else session.now_ms))
            if is_held:
                failures.since_ms += session.now_ms - asked.sent_ms
            failures.count += 1
            failures.pause_ms = session.now_ms + session.options.backoff.delay_ms(failures.count, error, session.chance)
            is_over = session.now_ms - failures.since_ms >= self._timeout_ms
            if is_over or not is_passing(error, failures.count):
                is_lasting = True
                failures.since_ms = session.now_ms
                failures.count = 0
            if isinstance(error, NotLeaderError):
                self._moved(number)
        if not is_lasting:
            self._arrived(Polled([]))
        elif isinstance(error, NotLeaderError):
            # The caller has no other leader to ask.
            self._failed(UnavailableError(f"the partitions have no leader that answers: {error}"))
        else:
            self._failed(error)

    def _begin_anew(self) -> None:
        """The topic was deleted and created again: goes on with the new one, which may have other partitions."""
        self._failures.clear()
        self.lag.forget()
        self._session.routes.forget(self._topic)
        self._refreshed_ms = self._session.now_ms - REFRESH_MS
        self._arrived(Polled([]))

    def _doubt(self, number: int, asked: _PollInFlight, error: FlotillaError) -> None:
        """Forgets the leader, so that the partition is polled alone next time and does not hold up the others."""
        route = Route(self._topic, number)
        leader = self._session.routes.find(route)
        # A leader that the error named is not doubted.
        is_doubtful = (
            leader == asked.leader if isinstance(error, NotLeaderError) else isinstance(error, UnavailableError)
        )
        if leader is not None and is_doubtful:
            self._session.routes.doubt(route, leader)

    def _refresh(self) -> None:
        session = self._session
        if self._is_refreshing or session.now_ms - self._refreshed_ms < REFRESH_MS:
            return
        self._is_refreshing = True
        call = ClientCall(GetMetadata([self._topic]), session.now_ms + self._timeout_ms, self._refreshed)
        session.submit(call, session.now_ms)

    def _refreshed(self, result: CallResult) -> None:
        self._is_refreshing = False
        self._refreshed_ms = self._session.now_ms
        if isinstance(result, Metadata) and result.topics:
            self._session.routes.update(result, [self._topic])
            self.adapt()
