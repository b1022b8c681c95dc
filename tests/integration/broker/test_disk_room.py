"""A real node that has little room on its disk: as told by the file system, and by a reported figure that changes."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from flotilla.broker.disk.room import Room
from flotilla.client.async_client import AsyncClient
from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.errors import DeadlineError
from flotilla.types.notation import Watermark
from flotilla.types.operations.cluster import DISK_REFUSES
from flotilla.types.settings import NodeSettings
from tests.integration.broker.cluster import wait_for

ANY_PORT = Address("127.0.0.1", 0)


def node_settings(folder: Path, **given: Any) -> NodeSettings:
    ports = {"listen": ANY_PORT, "peer_listen": ANY_PORT, "http_listen": ANY_PORT, "grpc_listen": None}
    return NodeSettings(data_dir=str(folder / "data"), **ports, **given)


async def ready(address: str) -> dict[str, Any]:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    found: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return found


def test_messages_flow_again_when_there_is_room(tmp_path: Path) -> None:
    room = Room(100, 1_000)

    async def scenario() -> None:
        nonlocal room
        server = Server(node_settings(tmp_path), room=lambda: room)
        await server.start()
        try:
            async with AsyncClient(server.client_address, timeout_ms=20_000) as client:
                await client.create_topic("orders")
                await client.produce("orders", b"a")
                room = Room(9, 1_000)
                warned = await wait_for(client.admin.describe_node, "a warning", is_enough=lambda each: each.warnings)
                assert [warning.code for warning in warned.warnings] == [DISK_REFUSES]
                with pytest.raises(DeadlineError, match=r"DISK_FULL: .*data\) has 9B of 1000B free"):
                    await client.produce("orders", b"b", timeout_ms=500)
                async with client.queue("orders", group="mail") as consumer:
                    async for message in consumer:
                        await message.ack()
                        break
                waiting = asyncio.ensure_future(client.produce("orders", b"c"))
                room = Room(10, 1_000)
                # Its client tries again by itself.
                assert (await waiting).offset == 1
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_the_file_system_of_the_data_directory_is_looked_at(tmp_path: Path) -> None:
    async def scenario() -> None:
        size = shutil.disk_usage(tmp_path).total
        server = Server(node_settings(tmp_path, disk_refuse_free=Watermark(2 * size)))
        await server.start()
        try:
            async with AsyncClient(server.client_address, timeout_ms=20_000) as client:
                described = await client.admin.describe_node()
                assert described.disk_total_bytes == size > described.disk_free_bytes > 0
                await client.create_topic("orders")
                with pytest.raises(DeadlineError, match=r"DISK_FULL: .*disk_refuse_free"):
                    await client.produce("orders", b"a", timeout_ms=500)
                http = (await client.admin.metadata()).brokers[0].http
            answer = await ready(http)
            assert answer["ready"]
            assert [warning["code"] for warning in answer["warnings"]] == [DISK_REFUSES]
        finally:
            await server.stop()

    asyncio.run(scenario())
