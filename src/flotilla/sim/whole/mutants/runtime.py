"""Deliberate bugs of the runtime: what leaves before it is durable, and entries that are left out."""

from typing import Any, Final

from flotilla.raft.messages import Entry, Ready
from flotilla.replica.replica import Replica
from flotilla.runtime.driver import Driver
from flotilla.sim.whole.mutants.mutant import WholeMutant


def _send_unsynced(original: Any) -> Any:
    def take(self: Driver, replica: Replica, taken: list[tuple[Replica, Ready]]) -> None:
        count = len(taken)
        original(self, replica, taken)
        for _, ready in taken[count:]:
            self._post(replica.group, ready.messages_after_sync)

    return take


def _leave_one_out(original: Any) -> Any:
    def take_committed(self: Driver, replica: Replica, entries: list[Entry]) -> None:
        original(self, replica, entries[1:] if len(entries) > 1 else entries)

    return take_committed


MUTANTS: Final = (
    WholeMutant(
        "send-unsynced",
        "a broker acknowledges entries before they are on its disk",
        ((Driver, "_take", _send_unsynced),),
        ("log",),
    ),
    WholeMutant(
        "leave-one-out",
        "a replica applies the last of its committed entries without the first",
        ((Driver, "_take_committed", _leave_one_out),),
        ("log",),
    ),
)
