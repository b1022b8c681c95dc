"""Three real nodes over HTTP and gRPC: a caller that sends its metadata index back sees its changes at every node."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import grpc
import httpx
import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.ports import LOOPBACK, free_ports

pytestmark = pytest.mark.slow

ROUNDS = 30
HEADER = "Flotilla-Metadata-Index"
KEY = "flotilla-metadata-index"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    cluster = BrokerCluster(Path(tmp_path_factory.mktemp("endpoints")))
    for broker in cluster.brokers.values():
        http, grpc_port = free_ports(2)
        broker.flags |= {"http_listen": f"{LOOPBACK}:{http}", "grpc_listen": f"{LOOPBACK}:{grpc_port}"}
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.end()


def test_over_http(cluster: BrokerCluster) -> None:
    chance = Random(3)

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        index = "0"
        async with httpx.AsyncClient(timeout=30) as http:

            async def ask(method: str, path: str, body: object = None) -> httpx.Response:
                nonlocal index
                address = cluster[chance.choice(cluster.running)].flags["http_listen"]
                url = f"http://{address}/v1/{path}"
                response = await http.request(method, url, json=body, headers={HEADER: index})
                index = response.headers.get(HEADER, index)
                return response

            for number in range(ROUNDS):
                topic = f"http-{number}"
                assert (await ask("POST", "topics", {"topic": topic, "partitions": 1})).status_code == 201
                assert topic in [each["topic"] for each in (await ask("GET", "topics")).json()["topics"]]
                assert (await ask("PATCH", f"topics/{topic}", {"partitions": 3})).status_code == 200
                # The number of partitions is what the endpoints remember of a topic.
                record = {"records": [{"payload_text": "x"}], "partition": 2}
                stored = await ask("POST", f"topics/{topic}/records", record)
                assert stored.status_code in (200, 201), stored.text
                assert (await ask("DELETE", f"topics/{topic}")).status_code == 200
                assert (await ask("GET", f"topics/{topic}")).status_code == 404
            index = "123456789"
            refused = await ask("GET", "topics")
            assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_ARGUMENT")

    run(cluster, scenario, seconds=180)


def test_over_grpc(cluster: BrokerCluster) -> None:
    chance = Random(4)

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        index = "0"
        channels = [grpc.aio.insecure_channel(broker.flags["grpc_listen"]) for broker in cluster.brokers.values()]

        async def ask(name: str, request: object) -> object:
            nonlocal index
            call = getattr(FlotillaStub(chance.choice(channels)), name)(request, metadata=((KEY, index),))
            reply = await call
            index = str(dict(await call.trailing_metadata()).get(KEY, index))
            return reply

        for number in range(ROUNDS):
            topic = f"grpc-{number}"
            await ask("CreateTopic", pb.CreateTopicRequest(topic=topic, partitions=1))
            found = await ask("Describe", pb.DescribeRequest())
            assert isinstance(found, pb.Cluster)
            assert topic in [each.name for each in found.topics]
            await ask("ListOffsets", pb.ListOffsetsRequest(topic=topic, partition=0, timestamp_ms=-2))
        assert int(index) > 0
        await asyncio.gather(*[channel.close() for channel in channels])

    run(cluster, scenario, seconds=180)
