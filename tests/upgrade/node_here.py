"""A node that runs in the test's own process, on a data directory that something else has made."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flotilla.client.client import Client
from flotilla.client.in_process import LoopThread
from flotilla.server import Server
from flotilla.types.address import Address, parse_address
from flotilla.types.limits import MIB
from flotilla.types.settings import NodeSettings

FREE = Address("127.0.0.1", 0)


@contextmanager
def node_here(data: Path, cluster: str = "flotilla", node_id: int = 1, join: str = "") -> Iterator[Client]:
    """A client of the node, which joins the cluster of the one at `join`."""
    loop = LoopThread()
    settings = NodeSettings(
        node_id=node_id,
        cluster_name=cluster,
        data_dir=str(data),
        listen=FREE,
        peer_listen=FREE,
        http_listen=None,
        grpc_listen=None,
        journal_file_bytes=2 * MIB,
        join=(parse_address(join),) if join else (),
    )

    async def start() -> Server:
        server = Server(settings)
        await server.start()
        return server

    server = loop.run(start())
    try:
        with Client(server.client_address, timeout_ms=20_000) as client:
            yield client
    finally:
        loop.stop(server.stop)


def records(client: Client, topic: str) -> list[tuple[int, int, bytes, bytes | None]]:
    """Partition, offset, payload and key of every record."""
    found = []
    for partition in range(len(client.describe_topic(topic).partitions)):
        with client.reader(topic, partitions=[partition]) as reader:
            while reader.behind != 0:
                found += reader.poll(wait_ms=100)
    return sorted((one.partition, one.offset, one.payload, one.key) for one in found)
