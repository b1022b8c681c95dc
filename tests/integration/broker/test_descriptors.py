"""A crowd of clients against a small limit of descriptors: it makes room for others, and nobody else notices."""

import asyncio
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from flotilla.client.async_client import AsyncClient
from tests.integration.broker.cluster import BrokerCluster, run
from tests.integration.ports import LOOPBACK, free_ports

LIMIT = 256
CROWD = 600

pytestmark = pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit sets the limit of another process")


def got(url: str) -> tuple[int, bytes]:
    try:
        with urlopen(url, timeout=10) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


async def crowd(address: str, count: int, ends: ExitStack) -> None:
    """Connections that say nothing and stay until `ends` closes them."""
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    for _ in range(count):
        each = ends.enter_context(socket.socket())
        each.setblocking(False)
        await loop.sock_connect(each, (host, int(port)))


async def new_clients_are_served(cluster: BrokerCluster, client: AsyncClient) -> None:
    """The crowd stays, and is cut to make room for them."""
    assert len((await client.admin.metadata()).brokers) == 3
    for number in range(10):
        async with cluster.client() as later:
            await later.create_topic(f"later{number}")
    for broker in cluster.brokers.values():
        status, names = await asyncio.to_thread(got, f"http://{broker.flags['http_listen']}/v1/topics")
        assert (status, b"later9" in names) == (200, True), names


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
            with ExitStack() as crowds:
                for broker in cluster.brokers.values():
                    for address in (broker.client_address, broker.flags["http_listen"], broker.flags["grpc_listen"]):
                        await crowd(address, CROWD, crowds)
                # Everything goes on, with all its files and links.
                for number in range(300):
                    await producer.send(b"%d" % number, partition=number % 3)
                await new_clients_are_served(cluster, client)
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
