"""Deliberate bugs of the client's queue consumer: leases not renewed, settlements reported before their answer."""

from typing import Any, Final

from flotilla.client.queue._lease_renewal import LeaseRenewal
from flotilla.client.queue._leases import Lease
from flotilla.client.queue._settlements import Settlements, Settler
from flotilla.client.queue.outcome import Outcome
from flotilla.sim.whole.mutants.mutant import WholeMutant
from flotilla.types.errors import FlotillaError
from flotilla.types.operations import LeaseRange


def _never_renew(original: Any) -> Any:
    def extend(self: LeaseRenewal, topic_id: int, number: int, ranges: list[LeaseRange]) -> None:
        """The consumer believes that they are extended."""

    return extend


class _Unheard:
    """Stands for a caller that was answered already."""

    def __init__(self, settler: Settler) -> None:
        self.is_awaited = settler.is_awaited

    def ended(self, lease: Lease, mask: int, expired: int, error: FlotillaError | None) -> None:
        pass


def _answer_at_once(original: Any) -> Any:
    def add(self: Settlements, lease: Lease, mask: int, outcome: Outcome, settler: Settler) -> None:
        original(self, lease, mask, outcome, _Unheard(settler))
        settler.ended(lease, mask, 0, None)

    return add


MUTANTS: Final = (
    WholeMutant(
        "never-renew",
        "leases of messages in hand are not renewed",
        ((LeaseRenewal, "_extend", _never_renew),),
        ("queue",),
    ),
    WholeMutant(
        "settle-unanswered",
        "a settlement counts as done when it is sent",
        ((Settlements, "add", _answer_at_once),),
        ("queue",),
        ("kill", "isolate", "power"),
    ),
)
