"""The models beside real brokers speak when a broker does something else than its log says."""

from collections.abc import Callable
from typing import Any

import pytest

from flotilla.partition.leader.group_delivery import GroupDelivery
from flotilla.partition.state.group import Failure, GroupState
from flotilla.partition.state.machine import PartitionMachine
from flotilla.sim.whole.models.service import _ORIGINALS, _PLACES
from flotilla.sim.whole.plan import WholePlan
from flotilla.sim.whole.run import WholeResult, simulate_whole
from flotilla.types.ids import Offset


def _run(workload: str) -> WholeResult:
    return simulate_whole(WholePlan(3, 3, 20_000_000, faults=(), workloads=(workload,)))


def test_brokers_are_themselves_again_after_a_run() -> None:
    assert _run("log").is_good
    assert tuple(getattr(owner, name) for owner, name in _PLACES) == _ORIGINALS


def _count_once(self: GroupState, first: Offset, end: Offset, not_before_ms: int, reason: str) -> int:
    for low, high, attempts in self.by_attempts(first, end):
        self.failures.set(low, high, Failure(max(attempts, 1), not_before_ms, reason))
    return end - first


def _lease_again(self: GroupDelivery, *arguments: Any) -> Any:
    leased = _take(self, *arguments)
    for run in leased[:1]:
        self.taken.remove(run.first, run.first + 1)
        self.ready.put(run.first, run.first + 1, self._delays.now_ms)
    return leased


_take = GroupDelivery.take


@pytest.mark.parametrize(
    ("owner", "name", "mistake", "workload", "promise"),
    [
        (GroupState, "fail", _count_once, "queue", "equal states"),
        (GroupDelivery, "take", _lease_again, "queue", "one live lease"),
        (PartitionMachine, "_settle_staged", lambda self, staged: None, "transactions", "equal states"),
    ],
)
def test_a_mistake_of_a_broker_is_found_where_it_happens(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    mistake: Callable[..., object],
    workload: str,
    promise: str,
) -> None:
    monkeypatch.setattr(owner, name, mistake)
    assert _run(workload).promise == promise
