"""Unread answers: the bound on their memory, and which client is refused first."""

from flotilla.frontends.tcp.budget import Budgets
from flotilla.types.errors import OverloadedError
from flotilla.types.limits import MIB
from flotilla.types.operations import Fetch, Fetched, GetMetadata, Metadata, Produce, Produced
from flotilla.types.operations.queue import Delivery, Extend, Poll, Polled
from tests.unit.frontends.tcp.frames import asked
from tests.unit.frontends.tcp.harness import run
from tests.unit.frontends.tcp.test_connection import Client

FETCH = Fetch("t", 0, 0, 1)


def start(client, number, request):
    """The tickets of those that the service was asked."""
    before = len(client.tickets)
    client.send(asked(number, request))
    return client.tickets[before:]


def fetch(client, size, number=90):
    """False: refused before anything was read for it."""
    tickets = start(client, number, FETCH)
    for ticket in tickets:
        ticket.answer(Fetched([b"x" * size], 0, 1))
    return bool(tickets)


def lazy(budgets, *sizes):
    """A client that leaves answers of these sizes unread."""
    client = Client(budgets=budgets)
    for number, size in enumerate(sizes):
        fetch(client, size, number + 2)
    return client


def test_all_connections_share_a_bound_on_what_they_leave_unread():
    budgets = Budgets(output_bytes_max=100_000)
    clients = [lazy(budgets, 10_000) for _ in range(50)]
    assert 80_000 < budgets.output.used_bytes < 100_000, "fifty would hold five times as much"
    answers = [dict(client.read())[2] for client in clients]
    assert {type(answer) for answer in answers[:8]} == {Fetched}
    assert {type(answer) for answer in answers[10:]} == {OverloadedError}
    assert all(answer.retry_after_ms > 0 for answer in answers[10:])
    assert budgets.output.used_bytes == 0


def test_a_client_that_leaves_much_unread_is_refused_and_one_that_reads_is_not():
    budgets = Budgets(output_bytes_max=100_000)
    clients = [lazy(budgets, *[5_000] * 30) for _ in range(3)]
    reader = Client(budgets=budgets)
    for _ in range(10):
        assert fetch(reader, 5_000)
        assert type(dict(reader.read())[90]) is Fetched
    for client in clients:
        answers = [answer for _, answer in client.read()]
        assert 2 <= sum(type(answer) is Fetched for answer in answers) <= 10
        assert sum(type(answer) is OverloadedError for answer in answers) >= 20
    assert fetch(clients[0], 5_000)
    assert type(dict(clients[0].read())[90]) is Fetched, "a client that has read is served again"


def test_nothing_is_read_from_disk_in_order_to_be_refused():
    budgets = Budgets(output_bytes_max=10_000)
    client = Client(budgets=budgets)
    client.connection.set_unwritten(6_000)
    assert not fetch(client, 10)
    assert type(dict(client.read())[90]) is OverloadedError


def test_a_poll_is_refused_before_it_leases_and_a_change_is_answered():
    budgets = Budgets(output_bytes_max=10_000)
    client = Client(budgets=budgets)
    client.connection.set_unwritten(20_000)
    for number, request, answer in [
        (2, Produce("t", 0, b"b"), Produced(7)),
        (3, Extend("t", 0, "g", "m", [], 1), Produced(8)),
        (4, GetMetadata([]), Metadata("blue", 1, [], [])),
    ]:
        (ticket,) = start(client, number, request)
        ticket.answer(answer)
    assert start(client, 5, Poll("t", "g", "m")) == []
    answers = dict(client.read())
    assert [type(answers[number]) for number in (2, 3, 4, 5)] == [Produced, Produced, Metadata, OverloadedError]
    client.connection.set_unwritten(0)
    (ticket,) = start(client, 6, Poll("t", "g", "m"))
    client.connection.set_unwritten(20_000)
    ticket.answer(Polled([Delivery(0, 1, 0, 1, 1, b"r" * 20_000)]))
    assert len(dict(client.read())[6].deliveries) == 1, "what was leased is handed over"


def test_an_answer_larger_than_the_whole_bound_is_let_in_alone():
    client = Client(budgets=Budgets(output_bytes_max=1_000))
    assert fetch(client, 5_000)
    assert type(dict(client.read())[90]) is Fetched


def test_unwritten_output_counts_for_all_clients_until_it_is_gone():
    budgets = Budgets(output_bytes_max=10_000)
    holder, other = Client(budgets=budgets), Client(budgets=budgets)
    holder.connection.set_unwritten(9_000)
    assert fetch(other, 2_000)
    assert type(dict(other.read())[90]) is OverloadedError
    holder.connection.set_unwritten(0)
    assert fetch(other, 2_000)
    assert type(dict(other.read())[90]) is Fetched


def test_many_clients_that_never_read_hold_no_more_than_one_bound_and_others_are_served():
    async def test(endpoint):
        reader = await endpoint.dial()
        await reader.call(2, Produce("t", 0, b"b" * 2 * MIB))
        await reader.call(3, Produce("small", 0, b"b" * 1_000))
        for _ in range(16):
            client = await endpoint.dial()
            client.writer.transport.pause_reading()
            for number in range(200):
                client.send(number + 2, FETCH)
        held = []

        def is_filled():
            held.append(endpoint.count("output_bytes_waiting"))
            return held[-1] > 8 * MIB

        await endpoint.wait_until(is_filled)
        for number in range(20):
            assert type(await reader.call(number + 10, Fetch("small", 0, 0, 1))) is Fetched
            is_filled()
        assert max(held) < 16 * MIB
        for client in endpoint.clients[1:]:
            client.writer.transport.abort()
        await endpoint.wait_until(lambda: endpoint.count("output_bytes_waiting") == 0)
        assert type(await reader.call(20, FETCH)) is Fetched

    run(test, output_bytes_max=16 * MIB)
