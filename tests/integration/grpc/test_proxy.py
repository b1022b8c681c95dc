"""A proxy before three real brokers, one of which is killed: its clients see slowness, and nothing else."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from tests.integration.broker.cluster import WAIT_S_MAX, BrokerCluster, run, wait_until
from tests.integration.broker.conftest import cluster, shared_cluster  # noqa: F401 - fixtures of these tests, too.
from tests.integration.broker.ledger import read_all
from tests.integration.grpc.proxy import proxy_before

pytestmark = pytest.mark.slow

TOPIC, GROUP = "through-a-proxy", "workers"


class Traffic:
    """Producers and workers of one proxy, and the ledger of their tasks."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub
        self.is_over = False
        #: Payload to place, of what was acknowledged.
        self.stored: dict[bytes, tuple[int, int]] = {}
        #: Sent, and not known whether stored.
        self.unsure: dict[bytes, None] = {}
        self.handled: Counter[bytes] = Counter()
        self.acked: dict[bytes, None] = {}

    async def produce(self, name: str) -> None:
        """One at a time; an error is repeated under the same idempotency key until it is stored."""
        number = 0
        while not self.is_over:
            payload = f"{name}/{number}".encode()
            number += 1
            self.unsure[payload] = None
            record = pb.Record(payload=payload, key=payload, idempotency_key=payload)
            request = pb.ProduceRequest(topic=TOPIC, records=[record])
            (receipt,) = (await _patiently(lambda request=request: self._stub.Produce(request, timeout=30))).receipts
            self._note_stored(payload, receipt)

    async def produce_stream(self, name: str) -> None:
        """Many in flight at a time. Each gets a receipt: the proxy retries where it must."""
        call = self._stub.ProduceStream()
        sent: list[bytes] = []
        room = asyncio.Semaphore(50)

        async def write() -> None:
            while not self.is_over:
                await room.acquire()
                payload = f"{name}/{len(sent)}".encode()
                sent.append(payload)
                self.unsure[payload] = None
                await call.write(pb.ProduceRequest(topic=TOPIC, records=[pb.Record(payload=payload)]))
                await asyncio.sleep(0.002)
            await call.done_writing()

        writing = asyncio.ensure_future(write())
        answered = 0
        async for message in call:
            for reply in message.replies:
                assert not reply.HasField("error"), reply.error
                self._note_stored(sent[answered], reply.receipts[0])
                answered += 1
                room.release()
        await writing
        assert answered == len(sent)

    def _note_stored(self, payload: bytes, receipt: pb.Receipt) -> None:
        del self.unsure[payload]
        assert payload not in self.stored
        self.stored[payload] = (receipt.partition, receipt.offset)

    async def work(self, name: str) -> None:
        where = {"topic": TOPIC, "group": GROUP}
        while not (self.is_over and not self.unsure and len(self.acked) == len(self.stored)):
            request = pb.PollRequest(**where, member=name, max_messages=20, wait_ms=1_000)
            polled = await _patiently(lambda request=request: self._stub.Poll(request, timeout=30))
            for message in polled.messages:
                self.handled[message.payload] += 1
            leases = {message.lease: message.payload for message in polled.messages}
            if leases:
                ack = pb.AckRequest(**where, leases=list(leases))
                reply = await _patiently(lambda ack=ack: self._stub.Ack(ack, timeout=30), is_expiry_fine=True)
                for lease in reply.expired if reply is not None else leases:
                    leases.pop(lease, None)
                self.acked |= dict.fromkeys(leases.values())


async def _patiently(call: Any, *, is_expiry_fine: bool = False) -> Any:
    """Repeats what may be repeated, as the errors say."""
    while True:
        try:
            return await call()
        except grpc.aio.AioRpcError as error:
            trailing = dict(error.trailing_metadata() or ())
            if is_expiry_fine and trailing.get("flotilla-error") == "LEASE_EXPIRED":
                return None
            if trailing.get("flotilla-retryable") != "true" and error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(0.05)


def test_clients_of_a_proxy_ride_through_a_failover(cluster: BrokerCluster, tmp_path: Path) -> None:  # noqa: F811
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic(TOPIC, partitions=3)
        await cluster.wait_led(TOPIC, 3)
        async with grpc.aio.insecure_channel(address) as channel:
            stub: Any = FlotillaStub(channel)
            await stub.Describe(pb.DescribeRequest(), wait_for_ready=True, timeout=WAIT_S_MAX)
            traffic = Traffic(stub)
            working = [asyncio.ensure_future(traffic.work(f"worker-{n}")) for n in range(3)]
            producing = [asyncio.ensure_future(traffic.produce(f"unary-{n}")) for n in range(3)]
            producing.append(asyncio.ensure_future(traffic.produce_stream("stream")))
            await _stored_more(traffic, 300)
            leader = await cluster.leader(TOPIC, 1)
            await leader.kill()
            # All partitions go on, the one that was led there included, and the node comes back as a follower.
            await _stored_more(traffic, 300)
            leader.start()
            await _stored_more(traffic, 300)
            traffic.is_over = True
            await asyncio.gather(*producing)
            await asyncio.gather(*working)
            await _judge(traffic, client)

    with proxy_before(cluster, tmp_path) as address:
        run(cluster, scenario, seconds=110)


async def _stored_more(traffic: Traffic, count: int) -> None:
    """So many in every partition since now."""

    def by_partition() -> Counter[int]:
        return Counter(partition for partition, _ in traffic.stored.values())

    before = by_partition()
    await wait_until(
        lambda: min(by_partition()[number] - before[number] for number in range(3)) * 10 >= count,
        f"{count // 10} more records in every partition",
    )


async def _judge(traffic: Traffic, client: AsyncClient) -> None:
    """Everything that was acknowledged is stored once, in its place, and was handled; nothing else is there."""
    messages = await read_all(client, TOPIC)
    places = {(message.partition, message.offset): message.payload for message in messages}
    assert len(places) == len(traffic.stored)
    for payload, place in traffic.stored.items():
        assert places[place] == payload
    assert traffic.handled.keys() == traffic.stored.keys()
    info = await client.describe_group(TOPIC, GROUP)
    assert (info.lag, info.dead_total) == (0, 0)
