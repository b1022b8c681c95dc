"""A session among real brokers, on the clock that they share."""

from tests.unit.broker.fleet import TICK_MS
from tests.unit.client.brokers import Brokers
from tests.unit.client.world import World


class BrokerWorld(World):
    cluster: Brokers

    @property
    def now_ms(self) -> int:
        """The clock of the brokers is that of the client."""
        return self.cluster.fleet.clock.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int) -> None:
        self.cluster.fleet.turn_to(now_ms)

    def pass_ms(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            next_ms = self.cluster.fleet.clock.next_ms or end_ms
            super().pass_ms(min(max(next_ms, self.now_ms + 1), self.now_ms + TICK_MS, end_ms) - self.now_ms)

    def kill(self, node: int) -> None:
        """A broker dies."""
        self.down.add(node)
        self.cluster.fleet.kill(node)
        self.cut(node)
