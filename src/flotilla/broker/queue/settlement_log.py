"""Group commit of settlements: what all groups of a partition settle goes into few commands of the log.

Settlements that arrive while shipments are in flight share the next one; those of one turn of the loop share a command
anyway. A caller is answered when everything that it added has committed, or with the reason why that is not known.
After a refusal the next shipment waits a moment. Nothing here reads a clock or knows what a settlement means.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from flotilla.partition.commands.partition_commands import SettleRuns, encode_command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.types.errors import FlotillaError, OutcomeUnknownError

#: Called with None when everything that the caller added has committed.
Answered: TypeAlias = Callable[[FlotillaError | None], None]
#: Returns whether the command is in the log.
Propose: TypeAlias = Callable[[bytes, Callable[[object], None]], bool]

#: Shipments of one partition that wait for a quorum.
IN_FLIGHT_MAX: Final = 2
#: After a refusal.
RETRY_MS: Final = 20


class _Shipment:
    """Everything that was in the outbox at one time: several commands, as each is bounded."""

    __slots__ = ("error", "is_refused", "pending", "waiting")

    def __init__(self, waiting: list[Answered], commands: int) -> None:
        self.waiting = waiting
        #: Commands without an answer.
        self.pending = commands
        #: Not all of it is in the log.
        self.is_refused = False
        self.error: FlotillaError | None = None

    def answer(self, error: FlotillaError | None) -> None:
        waiting, self.waiting = self.waiting, []
        for answered in waiting:
            answered(error)


class SettlementLog:
    def __init__(
        self,
        leader: QueueLeader,
        propose: Propose,
        later: Callable[[int, Callable[[], None]], object],
        now_ms: Callable[[], int],
        decided: Callable[[SettleRuns, bool], None],
    ) -> None:
        """`later` runs an action after a delay; `decided` learns, after the leader, whether a command committed."""
        self._leader = leader
        self._propose = propose
        self._later = later
        self._now_ms = now_ms
        self._decided = decided
        #: Callers whose settlements are still in the leader's outbox.
        self._gathered: list[Answered] = []
        self._in_flight: list[_Shipment] = []
        self._is_send_due = False
        self._is_retry_due = False
        self._is_ended = False

    def push(self, answered: Answered | None = None) -> None:
        """The leader's outbox may have something in it: ships it at the end of this turn, or when there is room."""
        if answered is not None:
            self._gathered.append(answered)
        if not self._is_send_due and len(self._in_flight) < IN_FLIGHT_MAX:
            self._is_send_due = True
            self._later(0, self._send)

    def _send(self) -> None:
        self._is_send_due = False
        if not self._is_ended and len(self._in_flight) < IN_FLIGHT_MAX:
            self._ship()

    def ship_all(self) -> bool:
        """Proposes everything now, whatever is in flight. Returns whether all that was settled is in the log."""
        self._ship()
        return not any(shipment.is_refused for shipment in self._in_flight)

    def _ship(self) -> None:
        waiting, self._gathered = self._gathered, []
        if not self._leader.posting:
            if waiting:
                self._answer_idle(waiting)
            return
        now_ms = self._now_ms()
        commands: list[SettleRuns] = []
        while (command := self._leader.take_outbox(now_ms)) is not None:
            commands.append(command)
        shipment = _Shipment(waiting, len(commands))
        self._in_flight.append(shipment)
        for command in commands:
            if not self._propose(encode_command(command), partial(self._answered, shipment, command)):
                shipment.is_refused = True

    def _answer_idle(self, waiting: list[Answered]) -> None:
        """Their settlements need no log, or another caller's command has them and may still be in flight."""
        if self._in_flight:
            self._in_flight[-1].waiting += waiting
        else:
            _Shipment(waiting, 0).answer(None)

    def _answered(self, shipment: _Shipment, command: SettleRuns, result: object) -> None:
        if isinstance(result, FlotillaError):
            shipment.error = result
        if not self._is_ended:
            self._report(command, result)
        shipment.pending -= 1
        if shipment.pending:
            return
        self._in_flight.remove(shipment)
        shipment.answer(shipment.error)
        if self._is_ended:
            return
        if shipment.error is None:
            self._send()
        elif not self._is_retry_due:
            # Expired leases are back in the outbox: without a pause they would be refused again at once, and for ever.
            self._is_retry_due = True
            self._later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._is_retry_due = False
        self.push()

    def _report(self, command: SettleRuns, result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._leader.committed(command)
            self._decided(command, True)
        elif not isinstance(result, OutcomeUnknownError):
            self._leader.failed(command)
            self._decided(command, False)
        # An unknown outcome changes nothing: the term is over, and with it this leader.

    def end(self, reason: FlotillaError) -> None:
        """The term is over: what was not proposed will not be. The rest gets its answer from consensus."""
        self._is_ended = True
        waiting, self._gathered = self._gathered, []
        _Shipment(waiting, 0).answer(reason)
