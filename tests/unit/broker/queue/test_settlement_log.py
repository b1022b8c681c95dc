"""Group commit when the log refuses: a pause, and nothing is forgotten."""

from collections.abc import Callable

from flotilla.broker.queue.settlement_log import RETRY_MS, SettlementLog
from flotilla.partition.commands.partition_commands import SettleRuns, decode_command
from flotilla.types.errors import FlotillaError, UnavailableError
from tests.unit.partition.leading import Leading


class HandTurned:
    """Timers that the test fires, and a log that answers at once."""

    def __init__(self, here: Leading) -> None:
        self.here = here
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.proposed = 0
        self.refusal: FlotillaError | None = None

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.timers.append((delay_ms, action))

    def now_ms(self) -> int:
        return self.here.now_ms

    def propose(self, data: bytes, answered: Callable[[object], None]) -> None:
        self.proposed += 1
        answered(self.refusal or self.here.log.command(decode_command(data)))

    def fire(self) -> int:
        """Runs the timer that was set first; returns its delay."""
        delay_ms, action = self.timers.pop(0)
        action()
        return delay_ms


def test_refused_settlements_are_proposed_again_after_a_pause() -> None:
    here = Leading()
    here.append(1)
    here.poll(visibility_ms=100)
    here.pass_ms(100)
    outside = HandTurned(here)
    decided: list[tuple[SettleRuns, bool]] = []
    settlements = SettlementLog(
        here.leader,
        outside.propose,
        outside.later,
        outside.now_ms,
        lambda command, done: decided.append((command, done)),
    )
    outside.refusal = UnavailableError("leadership is being handed over")
    answers: list[FlotillaError | None] = []
    settlements.push(answers.append)
    assert outside.fire() == 0
    assert answers == [outside.refusal], "a caller learns that it is not done"
    for count in (1, 2, 3):
        assert outside.proposed == count, "one proposal for each turn: the loop must go on meanwhile"
        outside.refusal = outside.refusal if count < 3 else None
        assert outside.fire() == RETRY_MS
        assert outside.fire() == 0
    assert [done for _, done in decided] == [False, False, False, True]
    assert here.attempts(0) == 1
