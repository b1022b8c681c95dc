"""The outcome of leases, as a member, a deadline or a transaction asks for it, and the delay of the next attempt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from flotilla.partition.commands.partition_commands import AckedResult
from flotilla.partition.leader.settlement_outbox import Piece
from flotilla.types.group_settings import GroupRules
from flotilla.types.ids import Offset
from flotilla.types.operations.queue import BY_BACKOFF, MessageResult

#: The attempt after which a message is dead: its own bound, or the group's.
LastAttemptOf: TypeAlias = Callable[[Offset], int]

#: A kind beside those of the wire: a transaction will ack the messages, or give them back.
STAGE: Final = -1

#: Reasons of failures that no member reported.
LEASE_EXPIRED: Final = "lease expired"
CONSUMER_LOST: Final = "consumer lost too often"


@dataclass(slots=True)
class Outcome:
    """How leases end, and the settings that decide what follows."""

    #: ACK, RELEASE, FAIL, REJECT or STAGE.
    kind: int
    now_ms: int
    rules: GroupRules
    reason: str = ""
    delay_ms: int = BY_BACKOFF
    #: None: the bounds that `limit_deliveries` has set, or the group's.
    last_attempt_of: LastAttemptOf | None = None
    #: No member waits for the answer or asks again.
    is_unasked: bool = False
    #: Filled with the pieces that STAGE has taken.
    staged: list[Piece] = field(default_factory=list)
    #: Of an ack, by offset.
    results: Mapping[Offset, AckedResult] = field(default_factory=dict)

    @staticmethod
    def logged(result: MessageResult, ttl_ms: int) -> AckedResult:
        """A result as it is logged; with a time to live of 0 it is not kept."""
        is_kept = result.is_kept and ttl_ms > 0
        return AckedResult(result.offset, ttl_ms if is_kept else 0, result.payload if is_kept else b"")

    def results_of(self, first: Offset, end: Offset) -> tuple[AckedResult, ...]:
        if not self.results:
            return ()
        if end - first < len(self.results):
            return tuple([self.results[offset] for offset in range(first, end) if offset in self.results])
        return tuple([result for offset, result in self.results.items() if first <= offset < end])

    def retry_delay_ms(self, attempts: int, random: Random) -> int:
        """The backoff doubles with each attempt. Half of it is random, so that messages that failed together come back
        apart.
        """
        if self.delay_ms >= 0:
            return self.delay_ms
        # A larger shift only makes a longer number: the bound has fewer bits.
        full_ms = min(self.rules.nack_backoff_ms << min(attempts - 1, 32), self.rules.nack_backoff_max_ms)
        return random.randint(full_ms - full_ms // 2, full_ms)
