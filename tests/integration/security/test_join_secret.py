"""A cluster without TLS whose nodes share a secret: who knows it founds, enters and joins, and nobody else."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flotilla import AsyncClient
from flotilla.client.credentials import JoinCredentials
from flotilla.security.join_secret import JoinSecret
from flotilla.server import Server
from flotilla.types.address import Address, parse_address
from flotilla.types.errors import InvalidArgumentError, UnauthenticatedError
from flotilla.types.settings import NodeSettings

FREE = Address("127.0.0.1", 0)
SECRET = "a secret that nodes of this test share"


def secret_file(folder: Path, text: str = SECRET) -> str:
    file = folder / f"{len(text)}.secret"
    file.touch(0o600)
    file.write_text(text + "\n")
    return str(file)


def server(folder: Path, node: int, secret: str, **settings: Any) -> Server:
    return Server(
        NodeSettings(
            node_id=node,
            data_dir=str(folder / str(node)),
            listen=FREE,
            peer_listen=FREE,
            http_listen=None,
            grpc_listen=None,
            join_secret=secret,
            **settings,
        )
    )


async def reason(of: Server, word: str) -> None:
    while word not in " ".join(found.message for found in of.entry.reasons()):
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("authentication", [False, True])
def test_only_who_knows_the_secret_founds_enters_and_joins(tmp_path: Path, authentication: bool) -> None:
    good, bad = secret_file(tmp_path), secret_file(tmp_path, SECRET + "?")
    knowing = JoinCredentials("test", JoinSecret(SECRET))

    async def play() -> None:
        one = server(tmp_path, 1, good, await_init=True, authentication=authentication)
        await one.start()
        started = [one]
        try:
            async with asyncio.timeout(30), AsyncClient(one.client_address) as stranger:
                for attempt in (
                    lambda: stranger.admin.init_cluster({1: str(one.node.network.address)}),
                    lambda: stranger.admin.enter_cluster(["127.0.0.1:1"]),
                ):
                    with pytest.raises(UnauthenticatedError):
                        await attempt()
            async with asyncio.timeout(30), AsyncClient(one.client_address, credentials=knowing) as founder:
                await founder.admin.init_cluster({1: str(one.node.network.address)})
                async with AsyncClient(one.client_address) as stranger:
                    with pytest.raises(UnauthenticatedError):
                        await stranger.admin.join_cluster(9, peer="127.0.0.1:1", client="127.0.0.1:2")
                join = (parse_address(one.client_address),)
                for node, secret, said in ((2, bad, "another one"), (3, "", "not admitted")):
                    refused = server(tmp_path, node, secret, join=join, authentication=authentication)
                    started.insert(0, refused)
                    await refused.start()
                    await reason(refused, said)
                joining = server(tmp_path, 4, good, join=join, authentication=authentication)
                started.insert(0, joining)
                await joining.start()
                while not joining.membership.is_registered():
                    await asyncio.sleep(0.02)
                assert {broker.node for broker in (await founder.admin.metadata()).brokers} == {1, 4}
        finally:
            for each in started:
                await each.stop()

    asyncio.run(play())


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    file = secret_file(tmp_path)
    Path(file).chmod(0o644)
    with pytest.raises(InvalidArgumentError, match="chmod 600"):
        server(tmp_path, 1, file)
