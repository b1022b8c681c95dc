"""One poll of a gateway's client, over all leaders of a topic, without a memory of its own.

Leaders are asked in turn without waiting, then a poll is parked at each of them until one brings something. The
others are withdrawn then; what they have leased by that time, and what comes after the caller has gone, is given
back uncounted. Messages that are acknowledged as they leave cannot be given back: for them only one leader is asked
at a time.
"""

from collections.abc import Callable
from dataclasses import replace

from flotilla.client._core.session import Session
from flotilla.client._core.timers import Timer
from flotilla.client.queue._polls import Polls
from flotilla.client.queue.options import LONG_POLL_MS
from flotilla.types.errors import FlotillaError
from flotilla.types.operations.queue import Poll, Polled

#: How often all leaders are asked in turn, where no poll may be parked at more than one.
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
        """`done` is called once unless it is abandoned; `release` for whatever arrives for nobody.

        `moved` is told partitions that somebody else leads now.
        """
        self._session = session
        self._request = request
        self._done = done
        self._release = release
        self._until_ms = session.now_ms + request.wait_ms
        self._is_over = False
        #: A leader has answered, if only that there is nothing.
        self._is_answered = False
        self._retry_after_ms = 0
        self._timer: Timer | None = None
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
        """Nobody waits for it any more."""
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
        now_ms = self._session.now_ms
        times = [self._polls.next_ms]
        if left_ms:
            times.append(self._until_ms)
        if not self._polls.is_searching and not (self._may_park and self._is_answered):
            # Nothing is parked that would bring news.
            times.append(now_ms + _ROUND_MS)
        due_ms = min([time_ms for time_ms in times if time_ms is not None], default=None)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due_ms is None else self._session.timers.at(due_ms, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if not self._polls.is_searching and not (self._may_park and self._is_answered):
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
        if self._timer is not None:
            self._timer.cancel()
        self._polls.withdraw()
