"""Rate limits of groups across partitions: tokens that a partition gets from the leader of partition 0.

A limit counts for the whole topic, so one partition keeps its bucket, with tokens reserved in its log
(partition/leader/rate_limit); the leaders of the others request as many tokens as they have messages, one request at a
time per group. Tokens are spent when they are given out: unused ones expire after a second, so that none are saved up
for a burst. While that leader cannot be reached, nothing is delivered.
"""

from collections.abc import Callable
from functools import partial

from flotilla.broker.ports import Elsewhere, Outside
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Reply
from flotilla.types.operations.queue import Start, TakeTokens, TokensGranted

#: The partition that keeps the buckets of its topic.
TOKEN_PARTITION = TakeTokens.partition
#: Tokens of one request.
TAKE_MAX = 1_000
#: How long tokens are good.
LASTS_MS = 1_000
#: Until the next request when the token partition could not be reached, and at least when it had no tokens.
RETRY_MS = 500
RETRY_MS_MIN = 10


class _Share:
    """The tokens of one group."""

    __slots__ = ("count", "is_asking", "retry_ms", "until_ms")

    def __init__(self) -> None:
        self.count = 0
        self.until_ms = 0
        self.is_asking = False
        #: The time of the next request.
        self.retry_ms = 0


class TokenShares:
    """The tokens of all groups of one partition other than the token partition."""

    def __init__(
        self,
        elsewhere: Elsewhere,
        outside: Outside,
        now_ms: Callable[[], int],
        topic: Callable[[], str],
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when there may be tokens."""
        self._elsewhere = elsewhere
        self._outside = outside
        self._now_ms = now_ms
        self._topic = topic
        self._wake = wake
        self._shares: dict[str, _Share] = {}

    def take(self, group: str, wanted: int, start: Start, now_ms: int) -> int:
        """How many of the wanted messages may be delivered now. Requests tokens for the others.

        `start`: where the group begins in the token partition, if it was never polled there.
        """
        share = self._shares.get(group)
        if share is None:
            share = self._shares[group] = _Share()
        if share.until_ms <= now_ms:
            share.count = 0
        taken = min(share.count, wanted)
        share.count -= taken
        if taken < wanted and not share.is_asking and share.retry_ms <= now_ms:
            share.is_asking = True
            request = TakeTokens(self._topic(), group, min(wanted - taken, TAKE_MAX), start)
            self._elsewhere.ask(request, partial(self._answered, share))
        return taken

    def give_back(self, group: str, count: int) -> None:
        """Returns tokens that were taken just now for messages that were not delivered."""
        self._shares[group].count += count

    def retry_after_ms(self, group: str, now_ms: int) -> int:
        share = self._shares.get(group)
        return 0 if share is None else max(share.retry_ms - now_ms, 0)

    def _answered(self, share: _Share, result: Reply | FlotillaError) -> None:
        share.is_asking = False
        now_ms = self._now_ms()
        if isinstance(result, TokensGranted) and result.tokens:
            share.count += result.tokens
            share.until_ms = now_ms + LASTS_MS
            self._wake()
            return
        delay_ms = max(result.retry_after_ms, RETRY_MS_MIN) if isinstance(result, TokensGranted) else RETRY_MS
        share.retry_ms = now_ms + delay_ms
        self._outside.later(delay_ms, self._wake)
