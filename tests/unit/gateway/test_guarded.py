"""The gateway of callers with rights of their own: nothing of a gateway is reached past it."""

import asyncio

import pytest

from flotilla.gateway.gateway import Gateway
from flotilla.gateway.guarded import GuardedGateway
from flotilla.types.errors import UnauthenticatedError
from flotilla.types.operations import GetMetadata, ListOffsets, Poll, Subscribe


def test_every_method_of_a_gateway_has_a_guarded_one():
    public = {name for name in vars(Gateway) if not name.startswith("_")}
    assert public <= vars(GuardedGateway).keys()


class Unreached:
    def __getattr__(self, name):
        raise AssertionError(f"{name} was reached")


@pytest.mark.parametrize(
    "ask",
    [
        lambda gateway: gateway.ask(GetMetadata()),
        lambda gateway: gateway.ask(ListOffsets("t", 0, -1)),
        lambda gateway: gateway.poll(Poll("t", "g", "m")),
        lambda gateway: gateway.subscribe(Subscribe("t", "g", "m", 1)),
        lambda gateway: gateway.produce("t", []),
        lambda gateway: gateway.send("t", []),
        lambda gateway: gateway.topic("t"),
        lambda gateway: gateway.metadata(),
        lambda gateway: gateway.cluster(),
        lambda gateway: gateway.partitions("t"),
        lambda gateway: gateway.trim("t", None),
        lambda gateway: gateway.reach(5),
        lambda gateway: gateway.leave("t", "g", "m"),
        lambda gateway: gateway.dead_letters("t", "g").__aenter__(),
        lambda gateway: gateway.groups("t"),
        lambda gateway: gateway.known_topic("t"),
    ],
)
def test_without_a_caller_nothing_is_done(ask):
    async def play():
        found = ask(GuardedGateway(Unreached()))
        await found

    with pytest.raises(UnauthenticatedError):
        asyncio.run(play())
