"""The last hour in steps: counts between looks, sums at the end of a step, and bounded memory."""

from flotilla.broker.observability.rate_history import GROUPS_PER_LOOK, STEP_COUNT, STEP_MS, RateHistory
from flotilla.broker.observability.request_metrics import MeteredService
from flotilla.types.operations.queue import GroupDescription


class Host:
    """A partition with one group, or more."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.acked = 0
        self.lag = 0

    def queue_groups(self) -> list[str]:
        return self.names

    def count_queue(self, group: str) -> GroupDescription | None:
        return GroupDescription("queue", 0, 0, 0, self.lag, acked_total=self.acked)


class Node:
    def __init__(self, names: list[str]) -> None:
        self.now_ms = 1_000_000
        self.host = Host(names)
        self.service = MeteredService(None)  # type: ignore[arg-type]
        self.clients = {"tcp": 1, "http": 1, "grpc": 0, "received_bytes_total": 0, "sent_bytes_total": 0}
        self.history = RateHistory(7, self.service, lambda: self.clients, {(1, 0): self.host}, lambda: self.now_ms)  # type: ignore[arg-type,dict-item]
        self.history.look()

    def step(self, count: int = 1) -> None:
        self.now_ms += STEP_MS * count
        self.history.look()

    def series(self, name: str) -> list[int]:
        return next(each.values for each in self.history.read().series if each.name == name)


def test_each_step_counts_what_came_in_it() -> None:
    node = Node([])
    for total in (10, 10, 25):
        node.service.produced["orders"] = total
        node.step()
    assert node.series("produced") == [10, 0, 15]
    assert node.series("connections") == [2, 2, 2]
    read = node.history.read()
    assert (read.node, read.step_ms, read.end_ms) == (7, STEP_MS, node.now_ms)


def test_a_deleted_topic_counts_nothing_back() -> None:
    node = Node([])
    node.service.produced["orders"] = 10
    node.step()
    node.service.produced.clear()
    node.step()
    assert node.series("produced") == [10, 0]


def test_totals_that_come_with_a_leadership_are_not_counted() -> None:
    node = Node([])
    node.host.names = ["billing"]
    node.host.acked, node.host.lag = 5_000, 3
    node.step()
    node.host.acked += 4
    node.step()
    assert node.series("acked") == [0, 4]
    assert node.series("lag") == [3, 3]


def test_many_groups_are_measured_over_several_looks() -> None:
    node = Node([f"g{number}" for number in range(3 * GROUPS_PER_LOOK)])
    node.host.lag = 1
    for _ in range(8):
        node.history.look()
    node.step()
    assert node.series("lag") == [3 * GROUPS_PER_LOOK]


def test_an_hour_is_kept_and_no_more_also_after_a_pause() -> None:
    node = Node([])
    for count in (1, 3, STEP_COUNT * 2, 1):
        node.service.produced["orders"] = node.service.produced.get("orders", 0) + 7
        node.step(count)
    assert len(node.series("produced")) == STEP_COUNT
    assert node.series("produced")[-2:] == [7, 7]
    assert sum(node.series("produced")) == 14
