"""Deliberate bugs of leases that go from one leader to the next."""

from collections.abc import Sequence
from typing import Any, Final

from flotilla.broker.queue.polls import QueuePolls
from flotilla.partition.commands.hand_over import HandOver
from flotilla.partition.leader.holders import Holders
from flotilla.partition.leader.queue_leader import QueueLeader
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.whole.mutants.mutant import WholeMutant

#: Longer than any group waits for a member.
_FOR_EVER_MS: Final = 1 << 40


def _trust_any(original: Any) -> Any:
    def hand_over_at(self: PartitionMachine, index: int) -> HandOver | None:
        return None if self._hand_over is None else self._hand_over[1]

    return hand_over_at


def _forget_one(original: Any) -> Any:
    def hand_over(self: QueueLeader, now_ms: int) -> HandOver | None:
        made: HandOver | None = original(self, now_ms)
        if made is None:
            return None
        groups = [group._replace(leases=group.leases[:-1]) for group in made.groups]
        return HandOver(made.now_ms, tuple(groups))

    return hand_over


def _wait_for_one(original: Any) -> Any:
    def presented(self: Holders, name: str) -> None:
        original(self, name)
        self.awaited = {}

    return presented


def _admit_all(original: Any) -> Any:
    def admits(self: Holders, name: str, now_ms: int) -> bool:
        original(self, name, now_ms)
        self._joining.clear()
        return True

    return admits


def _deliver_at_once(original: Any) -> Any:
    def __init__(  # noqa: N807 -- it takes the place of one.
        self: QueueLeader, machine: Any, term: int, now_ms: int, random: Any, grace_ms: int, rules_of: Any, start: int
    ) -> None:
        original(self, machine, term, now_ms, random, 0, rules_of, start)

    return __init__


def _miss_at_once(original: Any) -> Any:
    def lost(self: QueuePolls, members: Sequence[str]) -> None:
        for member in members:
            for host in list(self.hosts.values()):
                host.release_member(member, 0)

    return lost


def _wait_for_nobody(original: Any) -> Any:
    def release_member(self: QueueLeader, member: str, now_ms: int, away_ms: int) -> bool:
        released: bool = original(self, member, now_ms, _FOR_EVER_MS)
        return released

    return release_member


MUTANTS: Final = (
    WholeMutant(
        "lose-at-once",
        "a connection that is gone for a moment ends the leases of its member, whatever its group says",
        ((QueuePolls, "lost", _miss_at_once), (QueueLeader, "release_member", _wait_for_nobody)),
        ("queue",),
        ("reset", "cut-client"),
    ),
    WholeMutant(
        "no-grace",
        "a new leader delivers at once what others hold",
        ((QueueLeader, "__init__", _deliver_at_once),),
        ("queue",),
        ("kill", "isolate"),
    ),
    WholeMutant(
        "wait-for-one-member",
        "a new leader delivers as soon as one member has presented its leases",
        ((Holders, "presented", _wait_for_one),),
        ("queue",),
        ("kill", "isolate"),
    ),
    WholeMutant(
        "lease-to-strangers",
        "a leader leases to members whose names are not in the log",
        ((Holders, "admits", _admit_all),),
        ("queue",),
        ("kill", "isolate"),
    ),
    WholeMutant(
        "trust-old-hand-over",
        "a new leader takes over leases that were handed over to another one before it",
        ((PartitionMachine, "hand_over_at", _trust_any),),
        ("queue",),
        ("transfer", "restart", "kill", "isolate"),
    ),
    WholeMutant(
        "hand-over-forgets",
        "a leader does not hand over the last lease of each group",
        ((QueueLeader, "hand_over", _forget_one),),
        ("queue",),
        ("transfer", "restart", "roll"),
    ),
)
