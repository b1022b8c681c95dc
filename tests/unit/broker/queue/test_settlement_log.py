"""The outbox of a partition when the log refuses: a pause, and nothing is forgotten."""

from collections.abc import Callable

from flotilla.broker.ports import Cancel
from flotilla.broker.queue.settlement_log import RETRY_MS, QueueOutbox
from flotilla.partition.commands.partition_commands import SettleRuns, decode_command
from flotilla.types.errors import FlotillaError, UnavailableError
from tests.unit.partition.leading import Leading


class HandTurned:
    """Timers that go off when they are told to, and a log that answers at once. Implements `Outside`."""

    def __init__(self, here: Leading) -> None:
        self.here = here
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.proposed = 0
        self.refusal: FlotillaError | None = None

    def later(self, delay_ms: int, action: Callable[[], None]) -> Cancel:
        self.timers.append((delay_ms, action))
        return lambda: None

    def now_ms(self) -> int:
        return self.here.now_ms

    def steady_ms(self) -> int:
        return self.here.now_ms

    def is_up(self, node: int) -> bool:
        raise AssertionError("an outbox talks to nobody")

    def connect(self, node: int, peer_address: str) -> None:
        raise AssertionError("an outbox talks to nobody")

    def disconnect(self, node: int) -> None:
        raise AssertionError("an outbox talks to nobody")

    def propose(self, data: bytes, answered: Callable[[object], None]) -> None:
        self.proposed += 1
        answered(self.refusal or self.here.log.command(decode_command(data)))

    def fire(self) -> int:
        """Runs the timer that was set first; tells how long it had to wait."""
        delay_ms, action = self.timers.pop(0)
        action()
        return delay_ms


def test_what_the_log_refuses_is_proposed_again_after_a_pause() -> None:
    here = Leading()
    here.append(1)
    here.poll(visibility_ms=100)
    here.pass_ms(100)
    outside = HandTurned(here)
    told: list[tuple[SettleRuns, bool]] = []
    outbox = QueueOutbox(
        here.leader, outside.propose, outside, outside.now_ms, lambda command, done: told.append((command, done))
    )
    outside.refusal = UnavailableError("leadership is being handed over")
    outbox.push()
    assert outside.fire() == 0
    for count in (1, 2, 3):
        assert outside.proposed == count, "one proposal for each turn: the loop must go on meanwhile"
        outside.refusal = outside.refusal if count < 3 else None
        assert outside.fire() == RETRY_MS
        assert outside.fire() == 0
    assert [done for _, done in told] == [False, False, False, True]
    assert here.attempts(0) == 1
