"""A crowd of clients against a small limit of descriptors: it makes room for others, and nobody else notices."""

import asyncio
import shutil
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.ports import LOOPBACK, free_ports

LIMIT = 256
CROWD = 600

pytestmark = pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit sets the limit of another process")


def got(url: str) -> tuple[int, bytes]:
    with urlopen(url, timeout=10) as answer:
        return answer.status, answer.read()


async def crowd(address: str, count: int) -> list[socket.socket]:
    """Connections that say nothing and stay."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    found = []
    for _ in range(count):
        each = socket.socket()
        each.setblocking(False)
        await loop.sock_connect(each, (host, int(port)))
        found.append(each)
    return found


def test_a_crowd_of_clients_stops_nobody(tmp_path: Path) -> None:
    cluster = BrokerCluster(tmp_path)
    for broker in cluster.brokers.values():
        broker.prefix = ("prlimit", f"--nofile={LIMIT}:{LIMIT}")
        http, grpc = free_ports(2)
        broker.flags["http_listen"] = f"{LOOPBACK}:{http}"
        broker.flags["grpc_listen"] = f"{LOOPBACK}:{grpc}"

    async def scenario(cluster: BrokerCluster, client: AsyncClient) -> None:
        await client.create_topic("t", partitions=3)
        async with client.producer("t") as producer:
            await producer.send(b"before")
            crowds: list[socket.socket] = []
            for broker in cluster.brokers.values():
                for address in (broker.client_address, broker.flags["http_listen"], broker.flags["grpc_listen"]):
                    crowds += await crowd(address, CROWD)
            # Everything goes on, with all its files and links.
            for number in range(300):
                await producer.send(b"%d" % number, partition=number % 3)
        assert len((await client.admin.metadata()).brokers) == 3
        # New clients are served while the crowd stays, which is cut to make room.
        for number in range(10):
            async with cluster.client() as later:
                await later.create_topic(f"later{number}")
        for broker in cluster.brokers.values():
            url = f"http://{broker.flags['http_listen']}/v1/topics"
            status, names = await asyncio.to_thread(got, url)
            assert (status, b"later9" in names) == (200, True)
        for each in crowds:
            each.close()
        for broker in cluster.brokers.values():
            logged = broker.log.read_text()
            assert "descriptors are divided" in logged
            assert "Too many open files" not in logged
            assert "peer down" not in logged

    try:
        cluster.start()
        run(cluster, scenario)
        assert cluster.running == [1, 2, 3]
    finally:
        cluster.end()
