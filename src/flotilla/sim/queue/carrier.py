"""The transport of dead messages to the dead-letter topic, at one leader of the topic for one term.

The steps of a real node: a death has a number in the log; its letter is produced by a producer of its own, whose id
follows from group and number, so that the next leader's copy is recognised; then the log says that it is buried.
"""

from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Final, Protocol

from flotilla.partition.commands.partition_commands import BuryDeaths, Command
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.group import Death
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.plans.queue_message import Letter, letter_batch
from flotilla.sim.wire import Outcome
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import Produce

MOVE_COUNT_MAX: Final = 4
RETRY_MS: Final = 300


class DeathSource(Protocol):
    """A leader whose messages die."""

    @property
    def machine(self) -> PartitionMachine: ...

    @property
    def queue(self) -> QueueLeader: ...

    @property
    def is_over(self) -> bool: ...

    def now_ms(self) -> int: ...

    def later(self, delay_ms: int, action: Callable[[], None]) -> None: ...

    def ask_elsewhere(self, request: Produce, answered: Callable[[Outcome], None]) -> None:
        """Asks the leader of the dead-letter topic."""

    def propose(self, command: Command, answered: Callable[[object], None]) -> None: ...

    def note(self, text: str) -> None: ...


class Carrier:
    """One convoy for each group at a time."""

    def __init__(self, source: DeathSource) -> None:
        self._source = source
        self._moving: dict[str, None] = {}

    def look(self) -> None:
        """A term begins: continues what the last leader did not finish."""
        for name, group in self._source.machine.groups.items():
            if group.dying:
                self.move(name)

    def move(self, group: str) -> None:
        if group not in self._moving:
            self._moving[group] = None
            self._source.later(0, partial(self._send, group))

    def _send(self, group: str) -> None:
        source = self._source
        if source.is_over:
            return
        deaths = source.queue.deaths(group, MOVE_COUNT_MAX)
        if not deaths:
            del self._moving[group]
            return
        born = source.machine.groups[group].born
        arrived: dict[int, bool] = {}
        for death in deaths:
            source.note(f"sends message {death.offset} of {group} to the dead letters: {death.reason}")
            batch = letter_batch(
                Letter(death.number, death.offset, group), _producer_id(group, born, death.number), death.died_ms
            )
            source.ask_elsewhere(
                Produce("dead letters", 0, batch), partial(self._arrived, group, deaths, arrived, death)
            )

    def _arrived(
        self, group: str, deaths: list[Death], arrived: dict[int, bool], death: Death, outcome: Outcome
    ) -> None:
        arrived[death.number] = not isinstance(outcome, FlotillaError)
        if len(arrived) < len(deaths) or self._source.is_over:
            return
        below = deaths[0].number
        while arrived.get(below, False):
            below += 1
        if below > deaths[0].number:
            self._source.propose(BuryDeaths(group, below, self._source.now_ms()), partial(self._buried, group))
        else:
            self._retry(group)

    def _buried(self, group: str, result: object) -> None:
        if isinstance(result, FlotillaError):
            self._retry(group)
        elif not self._source.is_over:
            self._source.later(0, partial(self._send, group))

    def _retry(self, group: str) -> None:
        if not self._source.is_over:
            self._source.later(RETRY_MS, partial(self._send, group))


def _producer_id(group: str, born: int, number: int) -> int:
    return 1 << 63 | int.from_bytes(blake2b(f"{group}/{born}/{number}".encode(), digest_size=7).digest(), "little")
