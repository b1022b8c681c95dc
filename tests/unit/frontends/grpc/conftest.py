"""A gRPC endpoint with a whole broker behind it, on a loop that runs while a test plays."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from flotilla.codec.generated.flotilla_pb2_grpc import FlotillaStub
from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.settings import NodeSettings

ANY_PORT = Address("127.0.0.1", 0)
_SECONDS_MAX = 60


class Endpoint:
    """A broker, a channel to it, and a topic of its own for each test."""

    def __init__(self, folder: Path) -> None:
        settings = NodeSettings(
            data_dir=str(folder),
            listen=ANY_PORT,
            peer_listen=ANY_PORT,
            http_listen=None,
            grpc_listen=ANY_PORT,
            journal_file_bytes=1 << 20,
        )
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.server = Server(settings)
        self._runner.run(self.server.start())
        self._topics = 0

    def play(self, work: Callable[["Session"], Coroutine[Any, Any, None]]) -> None:
        self._topics += 1
        self._runner.run(self._play(work, f"topic-{self._topics}"))

    async def _play(self, work: Callable[["Session"], Coroutine[Any, Any, None]], topic: str) -> None:
        async with grpc.aio.insecure_channel(self.server.grpc_address) as channel, asyncio.timeout(_SECONDS_MAX):
            await work(Session(channel, topic, self.server))

    def close(self) -> None:
        self._runner.run(self.server.stop())
        self._runner.close()


class Session:
    def __init__(self, channel: grpc.aio.Channel, topic: str, server: Server) -> None:
        self.channel = channel
        self.stub: Any = FlotillaStub(channel)
        self.topic = topic
        self.server = server


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    opened = Endpoint(tmp_path_factory.mktemp("grpc"))
    yield opened
    opened.close()
