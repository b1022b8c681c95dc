"""Forwarded leases in action: noted when a gateway delivers messages, released, and presented to new leaders.

A broker reclaims the leases that it delivered over a lost connection after about a second. The gateway extends them
before that, at the leader of that moment.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from flotilla.client._core.asyncio_network import Network
from flotilla.client._core.calls import CallResult, ClientCall
from flotilla.gateway.forwarded_leases import ForwardedLease, ForwardedLeases, forward
from flotilla.machine import steady_ms
from flotilla.types.address import Address
from flotilla.types.operations import Reply, Route
from flotilla.types.operations.queue import (
    RELEASE,
    Extend,
    LeaseRange,
    Poll,
    Polled,
    Pushed,
    Settle,
    Settled,
    Subscribe,
)

#: Leases are presented a second time in case the leader notices the lost connection later than the gateway.
_PRESENT_AGAIN_MS: Final = 400
_SETTLE_MS: Final = 10_000


class LeaseForwarding:
    def __init__(self, network: Callable[[], Network | None]) -> None:
        """`network` carries releases and extensions; None: the gateway is closed, or never had a connection."""
        self._network = network
        self._leases = ForwardedLeases()

    def forward(self, request: Poll | Subscribe, network: Network, given: Polled | Pushed) -> list[ForwardedLease]:
        """Notes the leases of messages that are delivered to a caller."""
        time_ms = steady_ms()
        until_ms = time_ms + given.visibility_ms
        leases = []
        for delivery in given.deliveries:
            leader = network.session.routes.find(Route(request.topic, delivery.partition))
            lease = forward(request.topic, request.group, request.member, delivery, leader=leader, until_ms=until_ms)
            self._leases.add(lease, time_ms)
            leases.append(lease)
        return leases

    def answered(self, call: ClientCall, reply: Reply) -> None:
        """Takes note of a caller's settlement or extension."""
        request = call.request
        if not isinstance(request, Settle | Extend) or not isinstance(reply, Settled):
            return
        if isinstance(request, Settle):
            if call.is_unsure:
                reply.expired = reply.refused_again(request.kind)
            self._leases.settled(request, request.leases)
        else:
            self._leases.extended(request, steady_ms() + request.visibility_ms)
            self._leases.settled(request, reply.expired)

    def release(self, request: Poll | Subscribe, polled: Polled) -> None:
        """Releases messages that arrived after their caller had left. If that fails, their leases expire."""
        ranges: dict[tuple[int, int], list[LeaseRange]] = {}
        for each in polled.deliveries:
            if each.lease_id:
                lease = LeaseRange(each.lease_id, each.first, each.first + each.count)
                ranges.setdefault((each.topic_id, each.partition), []).append(lease)
        for (topic_id, partition), held in ranges.items():
            self.settle(Settle(request.topic, partition, request.group, RELEASE, held, delay_ms=0, topic_id=topic_id))

    def settle(self, request: Settle) -> None:
        """Settles without waiting for the answer."""
        network = self._network()
        if network is not None:
            self._leases.settled(request, request.leases)
            network.submit(request, _SETTLE_MS, lambda result: None)

    def left(self, topic: str, group: str, member: str) -> None:
        """A member has ended: what it held is not its own any more, at no leader."""
        self._leases.left(topic, group, member)

    def link_lost(self, address: Address) -> None:
        """Presents the leases of a lost connection, later: the session must not be called now."""
        if len(self._leases) and self._network() is not None:
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self._present(self._leases.of_leader(address)))
            loop.call_later(_PRESENT_AGAIN_MS / 1000, lambda: self._present(self._leases.of_leader(address)))

    def moved(self, topic: str, partition: int) -> None:
        """Presents the leases of a partition that has another leader now."""
        if len(self._leases):
            self._present(self._leases.of_partition(topic, partition))

    def _present(self, leases: list[ForwardedLease]) -> None:
        network = self._network()
        if network is None:
            return
        for request in self._leases.presentations(leases, steady_ms()):

            def done(result: CallResult, request: Extend = request) -> None:
                if isinstance(result, Settled):
                    self._leases.settled(request, result.expired)

            network.submit(request, request.visibility_ms, done)
