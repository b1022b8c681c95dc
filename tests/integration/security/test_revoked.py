"""A user who is removed is out on all nodes at once, at every endpoint, also after a failover; others lose nothing."""

import asyncio
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import httpx
import pytest

from flotilla import AsyncClient, Password
from flotilla.client.producer._direct_connection import DirectConnection
from flotilla.codec.generated import flotilla_pb2 as pb
from flotilla.codec.generated import flotilla_pb2_grpc as stubs
from flotilla.types.address import parse_address
from flotilla.types.errors import AlreadyExistsError, FlotillaError, OutcomeUnknownError, UnauthenticatedError
from tests.integration.broker.cluster import BrokerCluster, wait_for, wait_until
from tests.integration.ports import LOOPBACK, free_ports

GONE = Password("gone", "another password")
BASIC = "Basic " + b64encode(b"gone:another password").decode()
#: It takes a twentieth of a second where the machine has time.
OUT_S_MAX = 1.0

Use = Callable[[], Awaitable[None]]


class Uses:
    """What the user does at one node, at every endpoint: each ends when the user is out."""

    def __init__(self, client: str, http: str, grpc_address: str) -> None:
        self._client = client
        self._http = http
        self._grpc = grpc_address
        self.begun = 0
        #: When each use ended; a client takes longer to close.
        self.ended: dict[str, float] = {}

    async def over_tcp(self) -> None:
        await asyncio.to_thread(self._wait_end)

    def _wait_end(self) -> None:
        """By hand: a client tries to log in again before it gives up."""
        connection = DirectConnection(parse_address(self._client), "gone", credentials=lambda: GONE)
        try:
            self.begun += 1
            connection._socket.settimeout(60)
            with pytest.raises(UnauthenticatedError):
                connection._receive()
            self.ended["tcp"] = time.monotonic()
        finally:
            connection.close()

    async def over_http(self) -> None:
        """A stream of events, which belongs to the session of a browser."""
        async with httpx.AsyncClient(base_url=f"http://{self._http}", timeout=60) as browser:
            answer = await browser.post("/login", json={"user": "gone", "password": "another password"})
            assert answer.status_code == 200, answer.text
            headers = {"Flotilla-Csrf": answer.json()["csrf"]}
            body = {"group": "h", "member": self._http}
            async with browser.stream("POST", "/v1/topics/idle/subscribe", json=body, headers=headers) as stream:
                assert stream.status_code == 200, await stream.aread()
                self.begun += 1
                async for _ in stream.aiter_lines():
                    pass
                self.ended["http"] = time.monotonic()
            assert (await browser.get("/session")).status_code == 401
            refused = await browser.get("/v1/topics", headers={"Authorization": BASIC})
            assert refused.status_code == 401

    async def over_grpc(self) -> None:
        async with grpc.aio.insecure_channel(self._grpc) as channel:
            opened = pb.SubscribeRequest.Open(topic="idle", group="i", member=self._grpc, credit=1)
            call = stubs.FlotillaStub(channel).Subscribe(metadata=(("authorization", BASIC),))
            await call.write(pb.SubscribeRequest(open=opened))
            self.begun += 1
            assert await call.code() == grpc.StatusCode.UNAUTHENTICATED
            self.ended["grpc"] = time.monotonic()


@asynccontextmanager
async def load(cluster: BrokerCluster, admin: AsyncClient) -> AsyncIterator[None]:
    """Messages come and go while users and grants change; none is lost."""
    sent: set[bytes] = set()
    received: set[bytes] = set()
    failures: list[Exception] = []
    is_over = is_all_sent = False

    async def produce() -> None:
        nonlocal is_all_sent
        while not is_over:
            payload = b"%d" % len(sent)
            await admin.produce("kept", payload)
            sent.add(payload)
            await asyncio.sleep(0.02)
        is_all_sent = True

    async def consume() -> None:
        async with admin.queue("kept", group="workers") as consumer:
            while not (is_all_sent or failures) or not sent <= received:
                for message in await consumer.poll(wait_ms=500):
                    received.add(message.payload)
                    await message.ack()

    async def change() -> None:
        number = 0
        while not is_over:
            # The leader that is killed does not say how it ended.
            with suppress(OutcomeUnknownError):
                await admin.admin.users.create(f"other{number}", "some password")
                await admin.admin.grants.add(f"other{number}", "produce", "kept")
                await admin.admin.users.delete(f"other{number}")
            number += 1

    async def kept(work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            failures.append(error)

    tasks = [asyncio.create_task(kept(work())) for work in (produce, consume, change)]
    try:
        yield
        is_over = True
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert failures == []
    assert sent
    assert sent <= received


async def removed(cluster: BrokerCluster, admin: AsyncClient, places: dict[int, Uses]) -> float:
    """Makes the user, lets it in at every place, removes it, and waits until it is out everywhere: for how long."""
    await admin.admin.users.create("gone", "another password")
    await admin.admin.grants.add("gone", "consume", "idle")
    kinds: list[Use] = []
    for place in places.values():
        place.begun = 0
        kinds += [place.over_tcp, place.over_http, place.over_grpc]

    async def knows() -> bool:
        for node in places:
            async with AsyncClient(cluster[node].client_address, credentials=GONE, timeout_ms=1_000) as client:
                await client.describe_topic("idle")
        return True

    await wait_for(knows, "the user at every node", is_enough=bool)
    tasks = [asyncio.create_task(use()) for use in kinds]
    try:
        await wait_until(
            lambda: sum(place.begun for place in places.values()) == len(kinds) or any(task.done() for task in tasks),
            "all uses",
        )
        assert [task.exception() for task in tasks if task.done()] == []
        await admin.admin.users.delete("gone")
        begun = time.monotonic()
        done = await asyncio.gather(*[asyncio.wait_for(task, 60) for task in tasks], return_exceptions=True)
        assert [each for each in done if each is not None] == []
        waited = {f"{node} {kind}": at - begun for node, use in places.items() for kind, at in use.ended.items()}
        print("seconds until the removed user was out:", {name: round(value, 3) for name, value in waited.items()})
        return max(waited.values())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def first_administrator(addresses: list[str]) -> Password:
    """Asked for at all nodes at once, each by another name: one is the first, and the others are refused."""

    async def create(address: str, user: str) -> None:
        async with AsyncClient(address, timeout_ms=30_000) as nobody:
            while True:
                try:
                    await nobody.admin.users.create_administrator(user, "a long password")
                except (AlreadyExistsError, UnauthenticatedError):
                    return
                except FlotillaError:
                    # The cluster begins, or the answer was lost: the next one is about the same user.
                    continue

    names = [f"root-{number}" for number in range(len(addresses))]
    await asyncio.gather(*[create(address, name) for address, name in zip(addresses, names, strict=True)])
    found = []
    for name in names:
        with suppress(UnauthenticatedError):
            async with AsyncClient(addresses, credentials=Password(name, "a long password")) as client:
                await client.topics()
                found.append(name)
    assert len(found) == 1, found
    return Password(found[0], "a long password")


@pytest.mark.slow
def test_a_removed_user_is_out_everywhere_also_after_a_failover(tmp_path: Path) -> None:
    cluster = BrokerCluster(tmp_path, flags={"authentication": "true"})
    places = {}
    for node, broker in cluster.brokers.items():
        http, grpc_address = (f"{LOOPBACK}:{port}" for port in free_ports(2))
        broker.flags.update(http_listen=http, grpc_listen=grpc_address)
        places[node] = Uses(broker.client_address, http, grpc_address)

    async def play() -> None:
        winner = await first_administrator([broker.client_address for broker in cluster.brokers.values()])
        async with AsyncClient(cluster.addresses, credentials=winner, timeout_ms=60_000) as admin:
            assert [user.name for user in await admin.admin.users.list()] == [winner.user]
            await wait_for(admin.admin.metadata, "three nodes", is_enough=lambda found: len(found.brokers) == 3)
            for topic in ("kept", "idle"):
                await admin.create_topic(topic, partitions=3, replication_factor=3)
            async with load(cluster, admin):
                assert await removed(cluster, admin, places) < OUT_S_MAX
                leader = (await admin.admin.metadata()).controller
                await cluster[leader].kill()
                del places[leader]

                def is_led(found: object) -> bool:
                    return getattr(found, "controller", leader) not in (0, leader)

                await wait_for(admin.admin.metadata, "another leader of the metadata", is_enough=is_led)
                assert await removed(cluster, admin, places) < OUT_S_MAX

    try:
        cluster.start()
        asyncio.run(asyncio.wait_for(play(), 240))
    except BaseException as error:
        for broker in cluster.brokers.values():
            error.add_note(f"--- node {broker.node} ---\n{broker.logged()[-4_000:]}")
        raise
    finally:
        cluster.end()
