"""Deliberate bugs of queue groups at their broker: settlements that are not kept, dead letters lost and doubled."""

from typing import Any, Final

from flotilla.broker.queue.dead_letters import Convoy, DeadLetters, _Shipment
from flotilla.broker.queue.settlement_log import Answered, SettlementLog
from flotilla.broker.queue.stored_batches import StoredBatch
from flotilla.broker.queue.waiters import WaitingPoll
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.errors import FlotillaError
from flotilla.types.ids import Offset
from flotilla.types.operations import Reply


def _answer_uncommitted(original: Any) -> Any:
    def push(self: SettlementLog, answered: Answered | None = None) -> None:
        if answered is not None:
            answered(None)
        original(self)

    return push


def _bury_before_it_arrives(original: Any) -> Any:
    def arrived(
        self: DeadLetters, group: str, convoy: Convoy, shipment: _Shipment, number: int, _: Reply | FlotillaError
    ) -> None:
        original(self, group, convoy, shipment, number, Reply())

    return arrived


def _bury_all(original: Any) -> Any:
    """Everything that was sent, whatever has arrived."""
    return lambda self: [(self.deaths[0].number, self.deaths[-1].number + 1)]


def _cut_at_the_start(original: Any) -> Any:
    def piece(self: StoredBatch, first: Offset, end: Offset) -> bytes | memoryview:
        found: bytes | memoryview = original(self, self.base, self.base + end - first)
        return found

    return piece


def _never_expire(original: Any) -> Any:
    return lambda self, first, end, now_ms: ([(first, end)], True)


def _take_once_more(original: Any) -> Any:
    """The poll is answered, and stays parked."""

    def answer(self: WaitingPoll, answer: Any) -> None:
        self._done(answer)

    return answer


MUTANTS: Final = (
    WholeMutant(
        "settle-uncommitted",
        "a settlement is answered before it has committed",
        ((SettlementLog, "push", _answer_uncommitted),),
        ("queue",),
        ("kill", "isolate", "power"),
    ),
    WholeMutant(
        "bury-unarrived",
        "a letter that was refused is buried",
        ((DeadLetters, "_arrived", _bury_before_it_arrives),),
        ("queue",),
    ),
    WholeMutant(
        "bury-all",
        "letters are buried together, whether all arrived or not",
        ((_Shipment, "runs", _bury_all),),
        ("queue",),
    ),
    WholeMutant(
        "cut-at-the-start",
        "a part of a batch is cut out at the wrong place",
        ((StoredBatch, "piece", _cut_at_the_start),),
        ("queue",),
    ),
    WholeMutant(
        "never-expire",
        "expired messages are delivered",
        ((StoredBatch, "alive", _never_expire),),
        ("queue",),
        seed=2,
    ),
    WholeMutant(
        "polls-take-again",
        "a poll that was answered takes messages once more",
        ((WaitingPoll, "_answer", _take_once_more),),
        ("queue",),
    ),
)
