"""Deliberate bugs of the client's queue consumer: leases not renewed, settlements reported before their answer."""

from typing import Any, Final

from flotilla.client.admin.dead_letter import DeadLetter
from flotilla.client.admin.dead_letters import AsyncDeadLetters
from flotilla.client.queue._lease_renewal import LeaseRenewal
from flotilla.client.queue._settlements import Settlements
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.operations.queue import Settled
from flotilla.types.records import Record


def _never_renew(original: Any) -> Any:
    return lambda self: []


def _answer_at_once(original: Any) -> Any:
    def add(self: Settlements, lease: Any, mask: int, outcome: Any, ended: Any, *, is_awaited: bool = True) -> None:
        original(self, lease, mask, outcome, lambda *_: None, is_awaited=is_awaited)
        ended(lease, mask, 0, None)

    return add


def _read_no_refusals(original: Any) -> Any:
    def returned(self: Settlements, call: Any, partition: int, settled: Any, result: Any) -> None:
        original(self, call, partition, settled, Settled([]) if isinstance(result, Settled) else result)

    return returned


def _redrive_without_a_key(original: Any) -> Any:
    def record(self: AsyncDeadLetters, letter: DeadLetter) -> Record:
        found: Record = original(self, letter)
        return found._replace(idempotency_key=b"")

    return record


MUTANTS: Final = (
    WholeMutant(
        "never-renew",
        "leases of messages in hand are not renewed",
        ((LeaseRenewal, "due", _never_renew),),
        ("queue",),
    ),
    WholeMutant(
        "settle-unanswered",
        "a settlement counts as done when it is sent",
        ((Settlements, "add", _answer_at_once),),
        ("queue",),
        ("kill", "isolate", "power"),
    ),
    WholeMutant(
        "read-no-refusals",
        "a settlement that a broker refused counts as done",
        ((Settlements, "_returned", _read_no_refusals),),
        ("queue",),
        ("isolate", "cut-client", "pause", "kill"),
        60,
    ),
    WholeMutant(
        "redrive-without-a-key",
        "a redrive that is repeated sends a message once more",
        ((AsyncDeadLetters, "_record", _redrive_without_a_key),),
        ("queue",),
        ("kill", "isolate", "reset"),
        60,
    ),
)
