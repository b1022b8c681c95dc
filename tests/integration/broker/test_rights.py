"""Three nodes that ask who is there: they know each other, and what a user may do changes on all of them at once."""

import asyncio
from base64 import b64encode
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from flotilla.client.async_client import AsyncClient
from flotilla.client.credentials import Password
from flotilla.server import Server
from flotilla.types.access import CONSUME, PRODUCE
from flotilla.types.address import Address, Peer
from flotilla.types.errors import (
    AlreadyExistsError,
    DeadlineError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from flotilla.types.settings import NodeSettings
from tests.integration.ports import free_ports

ANY_PORT = Address("127.0.0.1", 0)
ADMIN = Password("root", "a long password")
ANNA = Password("anna", "pencil")


def node(folder: Path, number: int, ports: tuple[int, ...]) -> Server:
    settings = NodeSettings(
        node_id=number,
        data_dir=str(folder / str(number)),
        listen=ANY_PORT,
        peer_listen=Address("127.0.0.1", ports[number - 1]),
        peers=tuple(Peer(each, Address("127.0.0.1", port)) for each, port in enumerate(ports, 1)),
        http_listen=ANY_PORT,
        grpc_listen=None,
        authentication=True,
        journal_file_bytes=1 << 20,
    )
    settings.validate()
    return Server(settings)


async def until(condition, seconds: float = 20):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


@pytest.mark.timeout(90)
def test_three_nodes_know_each_other_and_forget_a_user_together(tmp_path):
    asyncio.run(play(tmp_path))


async def play(folder: Path) -> None:
    ports = free_ports(3)
    nodes = [node(folder, number, ports) for number in (1, 2, 3)]
    await asyncio.gather(*[each.start() for each in nodes])
    try:
        await use(nodes)
    finally:
        await asyncio.gather(*[each.stop() for each in nodes])


async def use(nodes: list[Server]) -> None:
    servers = [each.client_address for each in nodes]
    async with AsyncClient(servers) as nobody:

        async def founded() -> bool:
            try:
                await nobody.admin.users.create_administrator("root", "a long password", timeout_ms=5_000)
            except (UnavailableError, DeadlineError, OutcomeUnknownError):
                return False
            except AlreadyExistsError:
                # An earlier attempt whose answer was lost.
                return True
            return True

        await until(founded)
    async with AsyncClient(servers, credentials=ADMIN) as admin:
        await admin.create_topic("orders", partitions=3, max_deliveries=1)
        await admin.admin.users.create("anna", "pencil")
        await admin.admin.grants.add("anna", PRODUCE, "orders")
        await admin.admin.grants.add("anna", CONSUME, "orders", "billing")
        async with AsyncClient(servers, credentials=ANNA) as anna:
            for number in range(9):
                await anna.produce("orders", b"%d" % number, partition=number % 3)
            async with anna.queue("orders", group="billing") as consumer:
                taken = []
                while len(taken) < 9:
                    # A leader that has not applied the grant yet refuses.
                    with suppress(PermissionDeniedError):
                        taken += await consumer.poll(wait_ms=2_000)
                # Its last attempt: the leader asks another node for the topic of dead letters.
                await taken[0].nack(reason="broken")
                for message in taken[1:]:
                    await message.ack()

            async def is_buried() -> bool:
                return len(await admin.dead_letters("orders", "billing").list(10)) == 1

            await until(is_buried)
            # Over HTTP at each node, whichever leads.
            header = {"Authorization": f"Basic {b64encode(b'anna:pencil').decode()}"}
            async with httpx.AsyncClient(headers=header, timeout=20) as http:
                for each in nodes:
                    path = f"http://{each._own.http_address}/v1/topics/orders/records"
                    body = {"records": [{"payload_text": "x"}], "partition": 0}
                    answer = await http.post(path, json=body)
                    assert answer.status_code < 300, answer.text
                await admin.admin.users.delete("anna")
                for each in nodes:

                    async def is_out(path=f"http://{each._own.http_address}/v1/topics") -> bool:
                        return (await http.get(path)).status_code == 401

                    await until(is_out, 5)
            # Its connection may end while the record is on its way.
            with pytest.raises((UnauthenticatedError, NotFoundError, OutcomeUnknownError)):
                await anna.produce("orders", b"late")
