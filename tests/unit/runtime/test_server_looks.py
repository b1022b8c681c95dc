"""What a broker looks at every half second: one look that fails keeps none of the others."""

import asyncio
from pathlib import Path

import pytest

from flotilla.runtime.observability.failures import FAILURES
from flotilla.server import Server
from flotilla.types.address import Address
from flotilla.types.settings import NodeSettings

LOOPBACK = Address("127.0.0.1", 0)
LOOKS = ("_event_log.look", "_history.look", "_disk_looks.again")


@pytest.mark.parametrize("failing", LOOKS)
def test_a_look_that_fails_keeps_none_of_the_others(tmp_path: Path, failing: str) -> None:
    looked: list[str] = []

    def plant(server: Server, name: str) -> None:
        def look() -> None:
            looked.append(name)
            if name == failing:
                raise OverflowError("a bug")

        owner, method = name.split(".")
        setattr(getattr(server, owner), method, look)

    async def scenario() -> None:
        settings = NodeSettings(
            node_id=1,
            data_dir=str(tmp_path),
            listen=LOOPBACK,
            peer_listen=LOOPBACK,
            http_listen=None,
            grpc_listen=None,
        )
        server = Server(settings)
        await server.start()
        originals = [getattr(getattr(server, owner), method) for owner, method in (name.split(".") for name in LOOKS)]
        for name in LOOKS:
            plant(server, name)
        before = FAILURES.counts["check"]
        async with asyncio.timeout(60):
            while len(looked) < 2 * len(LOOKS):
                await asyncio.sleep(0.01)
        assert looked == [*LOOKS, *LOOKS], "the next look comes as well"
        assert FAILURES.counts["check"] == before + 2
        for name, original in zip(LOOKS, originals, strict=True):
            owner, method = name.split(".")
            setattr(getattr(server, owner), method, original)
        await server.stop()

    asyncio.run(scenario())
