"""Consumers of every kind whose leader freezes while they wait: they go on at the new leader, and wait no longer."""

import asyncio
import signal
from dataclasses import replace
from time import monotonic

import pytest

from flotilla.client._options import Subscription
from flotilla.client.async_client import AsyncClient
from flotilla.client.queue.aio import AsyncQueueConsumer
from flotilla.client.queue.options import QueueOptions, queue_parameters
from flotilla.client.reader.aio import AsyncReader
from flotilla.client.reader.options import ReaderPlan, reader_parameters
from flotilla.client.stream.aio import AsyncStreamConsumer
from flotilla.client.stream.options import StreamOptions, stream_parameters
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.broker.figures import report

pytestmark = pytest.mark.slow

#: Longer than the test lasts: no consumer may wait for the end of its long poll.
LONG_POLL_MS = 60_000


def patient_reader() -> Subscription[ReaderPlan]:
    made = reader_parameters("frozen")
    options = replace(made.options.options, long_poll_ms=LONG_POLL_MS)
    return made._replace(options=replace(made.options, options=options))


def patient_worker() -> Subscription[QueueOptions]:
    made = queue_parameters("frozen", "workers")
    return made._replace(options=replace(made.options, long_poll_ms=LONG_POLL_MS))


def patient_member() -> Subscription[StreamOptions]:
    made = stream_parameters("frozen", "members")
    return made._replace(options=replace(made.options, reader=replace(made.options.reader, long_poll_ms=LONG_POLL_MS)))


def ignore(_: object) -> None:
    """The test closes its consumers itself."""


def test_consumers_leave_a_frozen_leader_for_the_new_one(cluster: BrokerCluster) -> None:
    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("frozen", partitions=1)
        await client.produce("frozen", b"before")
        network = client._opened()
        async with (
            AsyncReader(network, patient_reader(), ignore) as reader,
            AsyncQueueConsumer(network, patient_worker(), ignore, ignore) as workers,
            AsyncStreamConsumer(network, patient_member(), ignore) as members,
        ):
            consumers = {"reader": reader, "queue group": workers, "stream group": members}
            # Kept: a message that the application drops comes again with the next leader.
            held = [await anext(consumer) for consumer in consumers.values()]
            assert [message.payload for message in held] == [b"before"] * 3
            waiting = {name: asyncio.ensure_future(anext(consumer)) for name, consumer in consumers.items()}
            frozen = await cluster.leader("frozen")
            frozen.signal(signal.SIGSTOP)
            stopped_s = monotonic()
            others = [cluster[node].client_address for node in cluster.running if node != frozen.node]
            async with AsyncClient(others) as producer:
                await producer.produce("frozen", b"after")
                report("SIGSTOP of a leader, to a producer", [monotonic() - stopped_s])
                for name, arrival in waiting.items():
                    arrival.add_done_callback(
                        lambda _, name=name: report(f"SIGSTOP of a leader, to a {name}", [monotonic() - stopped_s])
                    )
                # The old leader is still stopped, and its connections are open.
                for arrival in waiting.values():
                    assert (await arrival).payload == b"after"
            frozen.signal(signal.SIGCONT)

    run(cluster, scenario)
