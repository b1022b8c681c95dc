"""One poll of a gateway's caller, over all leaders of a topic.

Leaders are polled one after another without waiting, then a long poll is parked at each until one brings messages. The
others are withdrawn then; messages that they have leased by that time, and those that arrive after the caller has left,
are released. Messages that are acknowledged on delivery cannot be released: for them only one leader is polled at a
time.
"""

from collections.abc import Callable
from dataclasses import replace

from flotilla.client._core.session import Session
from flotilla.client._core.timers import Alarm, earliest_ms
from flotilla.client.queue._polls import Polls
from flotilla.client.queue.options import LONG_POLL_MS
from flotilla.types.errors import FlotillaError
from flotilla.types.operations.queue import Poll, Polled

#: The interval of rounds, where no long poll may be parked at more than one leader.
_ROUND_MS = 100


class GatewayPoll:
    def __init__(
        self,
        session: Session,
        request: Poll,
        *,
        rotation: int,
        timeout_ms: int,
        done: Callable[[Polled | FlotillaError], None],
        release: Callable[[Polled], None],
        moved: Callable[[int], None],
    ) -> None:
        """`done` is called once unless it is abandoned; `release` gets messages that arrive too late.

        `moved` gets partitions with a new leader.
        """
        self._session = session
        self._request = request
        self._done = done
        self._release = release
        self._until_ms = session.now_ms + request.wait_ms
        self._is_over = False
        #: A leader has answered, perhaps with nothing.
        self._is_answered = False
        self._retry_after_ms = 0
        self._alarm = Alarm(session.timers, self._on_alarm)
        self._polls = Polls(
            session,
            request.topic,
            request.partitions or None,
            request=self._part,
            arrived=self._arrived,
            failed=self._finish,
            answered=self._note_answer,
            moved=moved,
            timeout_ms=timeout_ms,
            rotation=rotation,
        )
        self._polls.begin_round()
        self._pump()

    def abandon(self) -> None:
        """Ends it: the caller has left."""
        if not self._is_over:
            self._end()

    def _pump(self) -> None:
        if self._is_over:
            return
        left_ms = max(self._until_ms - self._session.now_ms, 0)
        polls = self._polls
        polls.ask(self._request.max_messages, min(left_ms, LONG_POLL_MS) if self._may_park else 0, is_shared=False)
        if not left_ms and not polls.is_searching and self._is_answered:
            self._finish(Polled([], retry_after_ms=self._retry_after_ms))
        else:
            self._set_timer(left_ms)

    @property
    def _may_park(self) -> bool:
        return not self._request.is_auto_ack or self._polls.leader_count == 1

    def _set_timer(self, left_ms: int) -> None:
        round_ms = self._session.now_ms + _ROUND_MS if self._needs_round else None
        self._alarm.set(earliest_ms(self._polls.next_ms, self._until_ms if left_ms else None, round_ms))

    @property
    def _needs_round(self) -> bool:
        """No poll is in flight or parked that would bring messages."""
        return not self._polls.is_searching and not (self._may_park and self._is_answered)

    def _on_alarm(self) -> None:
        if self._needs_round:
            self._polls.begin_round()
        self._pump()

    def _part(self, partitions: list[int], messages: int, wait_ms: int) -> Poll:
        return replace(self._request, partitions=partitions, max_messages=messages, wait_ms=wait_ms)

    def _note_answer(self, partition: int) -> None:
        self._is_answered = True

    def _arrived(self, polled: Polled) -> None:
        if self._is_over:
            self._release(polled)
        elif polled.deliveries:
            self._finish(polled)
        else:
            self._retry_after_ms = polled.retry_after_ms or self._retry_after_ms
            self._pump()

    def _finish(self, result: Polled | FlotillaError) -> None:
        if not self._is_over:
            self._end()
            self._done(result)

    def _end(self) -> None:
        self._is_over = True
        self._alarm.set(None)
        self._polls.withdraw()
