"""The outbox of outcomes at one leader for one term: the steps of a real node, on the simulated one.

Outcomes that arrive while two commands are in flight share the next one. A caller is answered when everything it added
has committed, or with the reason why that is unknown.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from flotilla.partition.commands.partition_commands import SettleRuns, encode_command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.types.errors import FlotillaError, OutcomeUnknownError

#: Called with the result: None when everything has committed.
Shipped: TypeAlias = Callable[[FlotillaError | None], None]

UNDER_WAY_MAX: Final = 2
RETRY_MS: Final = 50


class Shipment:
    """Everything that was in the outbox at one time."""

    __slots__ = ("error", "left", "waiting")

    def __init__(self, waiting: list[Shipped], left: int) -> None:
        self.waiting = waiting
        self.left = left
        self.error: FlotillaError | None = None


class SimOutbox:
    """The outbox of one partition."""

    def __init__(
        self,
        queue: QueueLeader,
        propose: Callable[[bytes, Callable[[object], None]], None],
        later: Callable[[int, Callable[[], None]], None],
        now_ms: Callable[[], int],
        told: Callable[[SettleRuns, bool], None],
    ) -> None:
        """`later` calls back in another event; `told` hears what became of each command, after the leader."""
        self._queue = queue
        self._propose = propose
        self._later = later
        self._now_ms = now_ms
        self._told = told
        self._gathered: list[Shipped] = []
        self._under_way: list[Shipment] = []
        self._is_send_due = False
        self.is_over = False

    def push(self, answered: Shipped | None = None) -> None:
        """Something may have been put into the leader's outbox."""
        if answered is not None:
            self._gathered.append(answered)
        if not self._is_send_due:
            self._is_send_due = True
            self._later(0, self._send)

    def _send(self) -> None:
        self._is_send_due = False
        if self.is_over or len(self._under_way) >= UNDER_WAY_MAX:
            return
        commands: list[SettleRuns] = []
        now_ms = self._now_ms()
        while (command := self._queue.take_outbox(now_ms)) is not None:
            commands.append(command)
        waiting, self._gathered = self._gathered, []
        if not commands:
            self._tell_idle(waiting)
            return
        shipment = Shipment(waiting, len(commands))
        self._under_way.append(shipment)
        for command in commands:
            self._propose(encode_command(command), partial(self._answered, shipment, command))

    def _tell_idle(self, waiting: list[Shipped]) -> None:
        """They settled nothing, or somebody settled it before in a command that may be under way."""
        if self._under_way:
            self._under_way[-1].waiting += waiting
        else:
            for answered in waiting:
                answered(None)

    def _answered(self, shipment: Shipment, command: SettleRuns, result: object) -> None:
        if isinstance(result, FlotillaError):
            shipment.error = result
        if not self.is_over:
            self._report(command, result)
        shipment.left -= 1
        if shipment.left == 0:
            self._under_way.remove(shipment)
            for answered in shipment.waiting:
                answered(shipment.error)
            if shipment.error is None:
                self.push()
            else:
                # What nobody asked for is in the outbox again, and would be refused again at once.
                self._later(RETRY_MS, self.push)

    def _report(self, command: SettleRuns, result: object) -> None:
        if not isinstance(result, FlotillaError):
            self._queue.committed(command)
            self._told(command, True)
        elif not isinstance(result, OutcomeUnknownError):
            self._queue.failed(command)
            self._told(command, False)

    def end(self, reason: FlotillaError) -> None:
        """What was not proposed will not be; the rest gets its answer from consensus."""
        self.is_over = True
        waiting, self._gathered = self._gathered, []
        for answered in waiting:
            answered(reason)
