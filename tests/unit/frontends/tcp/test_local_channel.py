"""Connections from within the broker's own process: the rules of any connection, without bytes."""

import asyncio

from flotilla.client._core.connection import HELLO_ID, hello
from flotilla.frontends.tcp.connection import ConnectionLimits
from flotilla.types.errors import UnavailableError
from flotilla.types.limits import MIB
from flotilla.types.operations import Done, Fetch, Fetched, Produce, Produced, RemoveNode, Welcome
from flotilla.types.operations.queue import Withdraw
from tests.unit.frontends.tcp.harness import run

FETCH_ALL = Fetch("t", 0, 0, 1 * MIB)
LONG_POLL = Fetch("t", 0, 0, 1 * MIB, wait_ms=30_000)


class LocalClient:
    def __init__(self, server, greet=True):
        self.answers = []
        self.ends = []
        self.channel = server.connect(self.answers.extend, self.ends.append)
        if greet:
            self.send(HELLO_ID, hello("test", True))

    def send(self, correlation_id, request, metadata_index=0):
        self.channel.writelines([(correlation_id, request, metadata_index)])

    async def take(self, count=1):
        """The next answers, without the handshake's."""
        while len(self.answers) < count or isinstance(self.answers[0][1], Welcome):
            if self.answers and isinstance(self.answers[0][1], Welcome):
                del self.answers[0]
            await asyncio.sleep(0)
        taken, self.answers[:count] = self.answers[:count], []
        return [(correlation_id, answer) for correlation_id, answer, _ in taken]


def test_a_batch_goes_in_and_comes_out_without_bytes():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        client.send(2, Produce("t", 0, b"one"))
        client.send(3, FETCH_ALL)
        assert client.answers == [], "answers come from the loop, never inside a write"
        assert await client.take(2) == [(2, Produced(0)), (3, Fetched([b"one"], 0, 1))]
        assert endpoint.count("requests_total") == 2
        assert endpoint.count("connections") == 1
        assert endpoint.count("received_bytes_total") == endpoint.count("sent_bytes_total") == 0

    run(test)


def test_the_handshake_comes_first():
    async def test(endpoint):
        client = LocalClient(endpoint.server, greet=False)
        client.send(2, Produce("t", 0, b"one"))
        await endpoint.wait_until(lambda: bool(client.ends))
        assert client.ends == ["the first request on a connection is Hello"]
        assert endpoint.service.handled_count == 0
        assert endpoint.count("connections") == 0

    run(test)


def test_requests_beyond_the_bound_wait_for_answers():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        await asyncio.sleep(0.01)
        endpoint.service.held = []
        for number in range(5):
            client.send(2 + number, Produce("t", 0, b"batch"))
        assert endpoint.service.handled_count == 3
        while endpoint.service.held:
            endpoint.service.held.pop(0)(Produced(0))
            await asyncio.sleep(0.01)
        answers = await client.take(5)
        assert [number for number, _ in answers] == [2, 3, 4, 5, 6]

    run(test, connection_limits=ConnectionLimits(requests_max=3))


def test_batches_from_within_have_a_budget():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        await asyncio.sleep(0.01)
        endpoint.service.held = []
        client.send(2, Produce("t", 0, b"b" * 900))
        client.send(3, Produce("t", 0, b"b" * 900))
        assert endpoint.count("request_bytes_in_flight") == 900
        assert endpoint.count("connections_waiting_for_memory") == 1
        assert len(endpoint.service.held) == 1
        endpoint.service.held.pop()(Produced(0))
        await endpoint.wait_until(lambda: len(endpoint.service.held) == 1)
        client.channel.abort()
        endpoint.service.held.pop()(Produced(1))
        assert endpoint.count("request_bytes_in_flight") == 0

    run(test, request_bytes_max=1000)


def test_a_withdrawn_request_is_answered_at_once():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        client.send(2, LONG_POLL)
        client.send(3, Withdraw(2))
        answers = dict(await client.take(2))
        assert answers[3] == Done()
        assert isinstance(answers[2], UnavailableError)
        assert endpoint.service.cancelled_count == 1

    run(test)


def test_the_end_of_the_client_gives_up_what_waits():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        client.send(2, LONG_POLL)
        client.channel.abort()
        assert endpoint.service.cancelled_count == 1
        assert client.ends == []
        await endpoint.wait_until(lambda: bool(client.ends))
        client.send(3, FETCH_ALL)
        client.channel.abort()
        await asyncio.sleep(0.01)
        assert len(client.ends) == 1
        assert endpoint.count("connections") == 0

    run(test)


def test_shutdown_answers_what_came_before_and_refuses_the_rest():
    async def test(endpoint):
        client = LocalClient(endpoint.server)
        await asyncio.sleep(0.01)
        endpoint.service.held = []
        client.send(2, LONG_POLL)
        client.send(3, Produce("t", 0, b"batch"))
        closing = asyncio.ensure_future(endpoint.server.close(5_000))
        await asyncio.sleep(0.01)
        client.send(4, FETCH_ALL)
        assert client.ends == []
        endpoint.service.held.pop()(Produced(0))
        await closing
        answers = {number: answer for number, answer, _ in client.answers if number != HELLO_ID}
        assert answers[3] == Produced(0)
        assert isinstance(answers[2], UnavailableError)
        assert isinstance(answers[4], UnavailableError)
        assert client.ends == ["shutting down"]

    run(test)


def test_a_fault_of_the_service_costs_the_connection_that_met_it():
    async def test(endpoint):
        faults = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context["message"]))
        client, other = LocalClient(endpoint.server), LocalClient(endpoint.server)
        client.send(2, RemoveNode(1))
        client.send(3, FETCH_ALL)
        await endpoint.wait_until(lambda: bool(client.ends))
        assert faults == ["the service failed at RemoveNode"]
        other.send(2, FETCH_ALL)
        assert await other.take() == [(2, Fetched([], 0, 0))]

    run(test)
