"""Ends of leases on their way into the log: what all groups of a partition settle goes into one command.

Group commit: what comes while commands are under way shares the next one, and what comes in one turn of
the loop shares a command anyway. Whoever waits is answered when everything that it put in has committed, or
with the reason why that is not known. Nothing here reads a clock or knows what a settlement means.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from flotilla.broker.ports import Outside
from flotilla.partition.commands.partition_commands import SettleRuns, encode_command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.types.errors import FlotillaError, OutcomeUnknownError

#: Told the fate of what it put into the outbox: None when that is committed.
Answered: TypeAlias = Callable[[FlotillaError | None], None]
Propose: TypeAlias = Callable[[bytes, Callable[[object], None]], object]

#: Shipments of one partition that wait for a quorum at a time.
UNDER_WAY_MAX = 2
#: After a refusal.
RETRY_MS = 20


class _Shipment:
    """Everything that was in the outbox at one time; it has bounds by command, so there may be several."""

    __slots__ = ("error", "left", "waiting")

    def __init__(self, waiting: list[Answered], commands: int) -> None:
        self.waiting = waiting
        #: Commands without an answer.
        self.left = commands
        self.error: FlotillaError | None = None

    def tell(self, error: FlotillaError | None) -> None:
        waiting, self.waiting = self.waiting, []
        for answered in waiting:
            answered(error)


class QueueOutbox:
    def __init__(
        self,
        leader: QueueLeader,
        propose: Propose,
        outside: Outside,
        now_ms: Callable[[], int],
        told: Callable[[SettleRuns, bool], None],
    ) -> None:
        """`told` hears what became of each command, after the leader: whether it has committed."""
        self._leader = leader
        self._propose = propose
        self._outside = outside
        self._now_ms = now_ms
        self._told = told
        #: Whose part is in the leader's outbox still.
        self._gathered: list[Answered] = []
        self._under_way: list[_Shipment] = []
        self._is_send_due = False
        self._is_retry_due = False
        self._is_ended = False

    def push(self, answered: Answered | None = None) -> None:
        """Something may have been put into the leader's outbox in this turn."""
        if answered is not None:
            self._gathered.append(answered)
        if not self._is_send_due and len(self._under_way) < UNDER_WAY_MAX:
            self._is_send_due = True
            self._outside.later(0, self._send)

    def _send(self) -> None:
        self._is_send_due = False
        if self._is_ended or len(self._under_way) >= UNDER_WAY_MAX:
            return
        now_ms = self._now_ms()
        commands: list[SettleRuns] = []
        while (command := self._leader.take_outbox(now_ms)) is not None:
            commands.append(command)
        waiting, self._gathered = self._gathered, []
        if not commands:
            self._tell_idle(waiting)
            return
        shipment = _Shipment(waiting, len(commands))
        self._under_way.append(shipment)
        for command in commands:
            self._propose(encode_command(command), partial(self._answered, shipment, command))

    def _tell_idle(self, waiting: list[Answered]) -> None:
        """What they settled needs no log, or somebody settled it before, in a command that may be under way."""
        if self._under_way:
            self._under_way[-1].waiting += waiting
        else:
            _Shipment(waiting, 0).tell(None)

    def _answered(self, shipment: _Shipment, command: SettleRuns, result: object) -> None:
        if isinstance(result, FlotillaError):
            shipment.error = result
        if not self._is_ended:
            self._report(command, result)
        shipment.left -= 1
        if shipment.left:
            return
        self._under_way.remove(shipment)
        shipment.tell(shipment.error)
        if self._is_ended:
            return
        if shipment.error is None:
            self._send()
        elif not self._is_retry_due:
            # What nobody asks for again is back in the outbox, and would be refused again at once, and for ever.
            self._is_retry_due = True
            self._outside.later(RETRY_MS, self._retry)

    def _retry(self) -> None:
        self._is_retry_due = False
        self.push()

    def _report(self, command: SettleRuns, result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._leader.committed(command)
            self._told(command, True)
        elif not isinstance(result, OutcomeUnknownError):
            self._leader.failed(command)
            self._told(command, False)
        # What is unknown stays as it is: the term is over, and with it this leader.

    def end(self, reason: FlotillaError) -> None:
        """The term is over: what was not proposed will not be. The rest gets its answer from consensus."""
        self._is_ended = True
        waiting, self._gathered = self._gathered, []
        _Shipment(waiting, 0).tell(reason)
