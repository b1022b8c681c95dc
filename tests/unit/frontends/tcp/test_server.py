"""The TCP endpoint on real sockets: good clients are served, bad ones harm only themselves."""

import asyncio
import socket
import struct

import pytest

from flotilla.codec.frames import frame_header
from flotilla.frontends.tcp.channel import Channel
from flotilla.frontends.tcp.connection import ConnectionLimits
from flotilla.types import limits
from flotilla.types.errors import InvalidArgumentError, NotFoundError, OverloadedError, UnavailableError
from flotilla.types.limits import KIB, MIB
from flotilla.types.operations import DeleteTopic, Fetch, Fetched, Hello, Produce, Produced, RemoveNode, Welcome
from flotilla.types.operations.queue import Poll
from tests.unit.frontends.tcp.frames import answers_in, asked
from tests.unit.frontends.tcp.harness import run

FETCH_ALL = Fetch("t", 0, 0, 1 * MIB)


async def assert_unharmed(endpoint):
    """Another client can still connect, be served, and disconnect."""
    connections = endpoint.count("connections")
    client = await endpoint.dial()
    assert type(await client.call(50, Produce("unharmed", 0, b"b"))) is Produced
    client.close()
    await endpoint.wait_until(lambda: endpoint.count("connections") == connections)


# Good clients.


def test_a_batch_goes_in_and_comes_out():
    async def test(endpoint):
        client = await endpoint.dial(greet=False)
        welcome = await client.call(1, Hello(1, 1, "test"))
        assert welcome == Welcome(1, 3, "test", limits.CLIENT_FRAME_BYTES_MAX, 256, 1_700_000_000_000)
        assert await client.call(2, Produce("t", 0, b"one")) == Produced(0)
        assert await client.call(3, FETCH_ALL) == Fetched([b"one"], 0, 1)
        assert type(await client.call(4, DeleteTopic("t"))) is NotFoundError

    run(test)


@pytest.mark.parametrize("size", [0, 1, 64 * KIB, 200 * KIB, 3 * MIB])
def test_batches_of_any_size(size):
    async def test(endpoint):
        client = await endpoint.dial()
        batch = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert await client.call(2, Produce("t", 0, batch)) == Produced(0)
        assert await client.call(3, FETCH_ALL) == Fetched([batch], 0, 1)

    run(test)


def test_requests_are_pipelined():
    async def test(endpoint):
        client = await endpoint.dial()
        for number in range(1000):
            client.send(number + 10, Produce("t", 0, b"batch"))
        answers = [await client.read() for _ in range(1000)]
        assert answers == [(number + 10, Produced(number)) for number in range(1000)]

    run(test)


def test_a_long_poll_blocks_no_other_request():
    async def test(endpoint):
        client = await endpoint.dial()
        client.send(2, Fetch("t", 0, 0, 1 * MIB, wait_ms=30_000))
        assert type(await client.call(3, Fetch("other", 0, 0, 1))) is Fetched
        client.send(4, Produce("t", 0, b"news"))
        answers = dict([await client.read(), await client.read()])
        assert answers == {4: Produced(0), 2: Fetched([b"news"], 0, 1)}

    run(test)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\0b", "", "é" * 1000])
def test_names_are_passed_on_untouched(name):
    async def test(endpoint):
        client = await endpoint.dial()
        await client.call(2, Produce(name, 0, b"b"))
        assert list(endpoint.service.topics) == [name]

    run(test)


def test_answers_of_one_turn_leave_in_one_write():
    async def test(endpoint):
        client = await endpoint.dial()
        for number in range(50):
            client.send(number + 2, Fetch("t", 0, 0, 1, wait_ms=1000))
        await endpoint.wait_until(lambda: len(endpoint.service.parked) == 50)
        client.send(100, Produce("t", 0, b"news"))
        assert len(answers_in(await client.reader.read(1 * MIB))) == 51

    run(test)


def test_statistics_count():
    async def test(endpoint):
        client = await endpoint.dial()
        await client.call(2, Produce("t", 0, b"b" * 100))
        client.send(3, Fetch("t", 0, 1, 1, wait_ms=1000))
        await endpoint.wait_until(lambda: bool(endpoint.service.parked))
        statistics = endpoint.server.statistics()
        assert statistics["connections"] == statistics["connections_accepted_total"] == 1
        assert statistics["requests_total"] == 2
        assert statistics["requests_in_flight"] == 1
        assert statistics["received_bytes_total"] > 100
        before = statistics["sent_bytes_total"]
        client.close()
        await endpoint.wait_until(lambda: endpoint.count("connections") == 0)
        assert endpoint.count("sent_bytes_total") == before

    run(test)


# Bounds.


def test_beyond_the_bound_of_requests_nothing_is_read_until_answers_leave():
    async def test(endpoint):
        client = await endpoint.dial()
        endpoint.service.held = []
        for number in range(20):
            client.send(number + 2, Produce("t", 0, b"b" * 20 * KIB))
        await endpoint.wait_until(lambda: endpoint.service.handled_count == 4)
        received = endpoint.count("received_bytes_total")
        # Further requests are not read, however many come: they stay in the client's buffers.
        for number in range(400):
            client.send(number + 22, Produce("t", 0, b"b" * 20 * KIB))
        await assert_unharmed_while_held(endpoint)
        assert endpoint.service.handled_count == 5
        assert endpoint.count("received_bytes_total") < received + 1 * MIB
        held, endpoint.service.held = endpoint.service.held, None
        for done in held:
            done(Produced(99))
        answers = [await client.read() for _ in range(420)]
        assert [number for number, _ in answers] == list(range(2, 422))

    async def assert_unharmed_while_held(endpoint):
        other = await endpoint.dial()
        other.send(2, Produce("t", 0, b"b"))
        await endpoint.wait_until(lambda: endpoint.service.handled_count == 5)

    run(test, connection_limits=ConnectionLimits(requests_max=4))


def test_pending_bytes_of_one_client_are_not_overwritten_by_another():
    async def test(endpoint):
        client = await endpoint.dial()
        endpoint.service.held = held = []
        frames = [asked(number + 2, Produce(f"t{number}", 0, b"b" * 1000)) for number in range(3)]
        # In one piece, so that the bound stops in the middle of what one read brought.
        client.writer.write(b"".join(frames))
        await endpoint.wait_until(lambda: len(held) == 1)
        other = await endpoint.dial()
        for number in range(5):
            await other.call(number + 2, DeleteTopic("overwritten" * 300))
        endpoint.service.held = None
        held[0](Produced(7))
        assert [await client.read() for _ in range(3)] == [(2, Produced(7)), (3, Produced(0)), (4, Produced(0))]
        assert endpoint.service.topics == {"t1": [b"b" * 1000], "t2": [b"b" * 1000]}

    run(test, connection_limits=ConnectionLimits(requests_max=1))


def test_unread_answers_keep_their_requests_in_flight():
    async def test(endpoint):
        client = await endpoint.dial()
        await client.call(2, Produce("t", 0, b"b" * 3 * MIB))
        client.writer.transport.pause_reading()
        for number in range(40):
            client.send(number + 3, FETCH_ALL)
        await endpoint.wait_until(lambda: endpoint.count("requests_in_flight") == 4)
        await assert_unharmed(endpoint)
        # Some four answers went to the socket, four more wait for it; the other requests are not even read.
        assert endpoint.service.handled_count < 20
        client.writer.transport.resume_reading()
        answers = [await client.read() for _ in range(40)]
        assert [number for number, _ in answers] == list(range(3, 43))

    run(test, connection_limits=ConnectionLimits(requests_max=4))


def test_a_client_that_never_reads_holds_little_and_is_cut_off():
    async def test(endpoint):
        feeder = await endpoint.dial()
        for number in range(8):
            await feeder.call(number + 2, Produce("t", 0, b"b" * 1 * MIB))
        client = await endpoint.dial()
        client.writer.transport.pause_reading()
        for number in range(256):
            client.send(number + 2, FETCH_ALL)
        await endpoint.wait_until(lambda: endpoint.count("output_bytes_waiting") >= 16 * MIB)
        await assert_unharmed(endpoint)
        # At most one answer over the bound, and no further request is read.
        assert endpoint.count("output_bytes_waiting") < 16 * MIB + 9 * MIB
        assert endpoint.service.handled_count < 8 + 256
        endpoint.tick(limits.TRANSFER_MS_MAX // 1000)
        await assert_unharmed(endpoint)
        assert endpoint.count("connections") == 2
        # The system's buffers count as progress of the client, so it has some more time; it was not idle.
        endpoint.tick(limits.IDLE_MS_MAX // 1000 // 2)
        await endpoint.wait_until(lambda: endpoint.count("connections") == 1)
        assert endpoint.count("output_bytes_waiting") == 0
        await assert_unharmed(endpoint)

    run(test, connection_limits=ConnectionLimits(output_bytes_max=16 * MIB))


def test_a_client_that_reads_late_gets_everything_it_was_promised():
    async def test(endpoint):
        client = await endpoint.dial()
        await client.call(2, Produce("t", 0, b"b" * 1 * MIB))
        for number in range(40):
            client.send(number + 3, FETCH_ALL)
        await endpoint.wait_until(lambda: endpoint.count("output_bytes_waiting") >= 4 * MIB)
        answers = [await client.read() for _ in range(40)]
        assert [number for number, _ in answers] == list(range(3, 43))
        assert {type(answer) for _, answer in answers} <= {Fetched, OverloadedError}
        assert sum(type(answer) is Fetched for _, answer in answers) >= 4

    run(test, connection_limits=ConnectionLimits(output_bytes_max=4 * MIB))


def test_a_client_beyond_the_limit_is_refused():
    async def test(endpoint):
        first, second = await endpoint.dial(), await endpoint.dial()
        for each in (first, second):
            await each.call(2, Produce("t", 0, b"b"))
        third = await endpoint.dial(greet=False)
        number, error = await third.read()
        assert (number, type(error)) == (0, OverloadedError)
        assert error.retry_after_ms > 0
        await third.wait_cut()
        third.close()
        await endpoint.wait_until(lambda: endpoint.count("connections") == 2)
        assert endpoint.count("connections_refused_total") == 1
        second.close()
        await endpoint.wait_until(lambda: endpoint.count("connections") == 1)
        await assert_unharmed(endpoint)
        assert await first.call(3, Produce("t", 0, b"b")) == Produced(2)

    run(test, connections_max=2)


@pytest.mark.parametrize("greet", [False, True])
def test_clients_that_have_asked_for_nothing_make_room(greet):
    async def test(endpoint):
        known = await endpoint.dial()
        await known.call(2, Produce("t", 0, b"b"))
        silent = [await endpoint.dial(greet) for _ in range(2)]
        await endpoint.wait_until(lambda: endpoint.count("connections") == 3)
        for number in range(10):
            client = await endpoint.dial()
            assert isinstance(await client.call(2, Produce("t", 0, b"b")), Produced), number
            client.close()
            await endpoint.wait_until(lambda: endpoint.count("connections") <= 3)
            silent.append(await endpoint.dial(greet))
        await silent[0].wait_cut()
        await silent[1].wait_cut()
        assert isinstance(await known.call(3, Produce("t", 0, b"b")), Produced)
        assert endpoint.count("connections_refused_total") == 0
        assert endpoint.count("connections_cut_total") > 1

    run(test, connections_max=3)


def test_a_long_silent_client_makes_room_unless_it_holds_messages():
    async def test(endpoint):
        silent, holder, waiter = [await endpoint.dial() for _ in range(3)]
        await silent.call(2, Produce("t", 0, b"b"))
        await holder.call(2, Poll("t", "g", "m"))
        await waiter.call(2, Produce("t", 0, b"b"))
        refused = await endpoint.dial(greet=False)
        assert type((await refused.read())[1]) is OverloadedError
        await refused.wait_cut()
        endpoint.tick(4)
        await waiter.call(3, Produce("t", 0, b"b"))
        endpoint.tick(3)
        later = await endpoint.dial()
        await later.call(2, Produce("t", 0, b"b"))
        await silent.wait_cut()
        for number, each in enumerate((holder, waiter, later)):
            assert isinstance(await each.call(9, Produce("t", 0, b"b")), Produced), number

    run(test, connections_max=3)


# Bad clients.


@pytest.mark.parametrize(
    "data",
    [
        frame_header(2**31) + b"x" * 100_000,
        frame_header(2**32 - 1),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        bytes(64),
        asked(1, Produce("t", 0, b"no hello")),
        asked(1, Hello(7, 9)),
        asked(1, Hello(1, 1)) + frame_header(limits.CLIENT_FRAME_BYTES_MAX + 1) + bytes(300_000),
        asked(1, Hello(1, 1)) + frame_header(8) + b"\0\0\0\4\xff\xff\xff\xff",
    ],
    ids=["2 GiB", "4 GiB", "HTTP", "TLS", "zeros", "no hello", "version", "oversized", "garbage"],
)
def test_bad_bytes_are_answered_and_cut_off(data):
    async def test(endpoint):
        bad = await endpoint.dial(greet=False)
        bad.writer.write(data)
        _, answer = await bad.read()
        if type(answer) is Welcome:
            _, answer = await bad.read()
        assert type(answer) is InvalidArgumentError
        await bad.wait_cut()
        bad.close()
        await endpoint.wait_until(lambda: endpoint.count("connections") == 0)
        assert endpoint.count("request_bytes_in_flight") == 0
        await assert_unharmed(endpoint)

    run(test)


def test_the_error_also_reaches_a_client_that_is_still_sending():
    async def test(endpoint):
        bad = await endpoint.dial(greet=False)
        bad.writer.transport.pause_reading()
        bad.writer.write(frame_header(2**31) + bytes(8 * MIB))
        await bad.writer.drain()
        await endpoint.wait_until(lambda: endpoint.count("received_bytes_total") > 7 * MIB)
        bad.writer.transport.resume_reading()
        assert type((await bad.read())[1]) is InvalidArgumentError
        assert await bad.reader.read() == b""

    run(test)


def test_a_client_that_does_not_leave_when_it_should_is_cut_off():
    async def test(endpoint):
        bad = await endpoint.dial(greet=False)
        bad.writer.write(frame_header(2**31))
        await bad.read()
        bad.writer.write(bytes(100_000))
        endpoint.tick(5)
        await endpoint.wait_until(lambda: endpoint.count("connections") == 0)

    run(test)


def test_a_frame_that_is_never_finished():
    async def test(endpoint):
        bad = await endpoint.dial()
        bad.writer.write(asked(2, Produce("t", 0, bytes(1 * MIB)))[:100_000])
        await endpoint.wait_until(lambda: endpoint.count("request_bytes_in_flight") > 1 * MIB)
        bad.close()
        await endpoint.wait_until(lambda: endpoint.count("connections") == 0)
        assert endpoint.count("request_bytes_in_flight") == 0
        await assert_unharmed(endpoint)
        assert "t" not in endpoint.service.topics

    run(test)


def test_one_byte_a_second_is_cut_off():
    async def test(endpoint):
        slow = await endpoint.dial()
        frame = asked(2, Produce("t", 0, bytes(100)))
        for second in range(30):
            received = endpoint.count("received_bytes_total")
            slow.writer.write(frame[second : second + 1])
            if second < 11:
                await endpoint.wait_until(lambda before=received: endpoint.count("received_bytes_total") > before)
            endpoint.tick(1)
        number, error = await slow.read()
        assert (number, type(error)) == (0, UnavailableError)
        await slow.wait_cut()
        await assert_unharmed(endpoint)

    run(test)


def test_a_silent_stranger_is_cut_off():
    async def test(endpoint):
        stranger = await endpoint.dial(greet=False)
        known = await endpoint.dial()
        endpoint.tick(limits.HANDSHAKE_MS_MAX // 1000 + 1)
        number, error = await stranger.read()
        assert (number, type(error)) == (0, UnavailableError)
        await stranger.wait_cut()
        assert await known.call(2, Produce("t", 0, b"b")) == Produced(0)

    run(test)


def test_an_idle_client_is_sent_away():
    async def test(endpoint):
        idle, waiting = await endpoint.dial(), await endpoint.dial()
        waiting.send(2, Fetch("t", 0, 0, 1, wait_ms=300_000))
        await endpoint.wait_until(lambda: bool(endpoint.service.parked))
        endpoint.tick(limits.IDLE_MS_MAX // 1000 + 1)
        assert await idle.reader.read() == b""
        assert len(endpoint.service.parked) == 1

    run(test)


@pytest.mark.parametrize("is_rude", [False, True])
def test_a_client_that_disconnects_gives_up_its_long_polls(is_rude):
    async def test(endpoint):
        client = await endpoint.dial()
        client.send(2, Fetch("t", 0, 0, 1, wait_ms=300_000))
        await endpoint.wait_until(lambda: bool(endpoint.service.parked))
        if is_rude:
            raw = client.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.writer.transport.abort()
        else:
            client.close()
        await endpoint.wait_until(lambda: endpoint.service.cancelled_count == 1)
        await assert_unharmed(endpoint)

    run(test)


def test_a_fault_of_the_service_costs_one_connection():
    async def test(endpoint):
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
        unlucky, other = await endpoint.dial(), await endpoint.dial()
        unlucky.send(2, RemoveNode(1))
        await unlucky.wait_cut()
        assert reported == ["the service failed at RemoveNode"]
        assert await other.call(2, Produce("t", 0, b"b")) == Produced(0)

    run(test)


# The end.


def test_draining_answers_requests_in_flight():
    async def test(endpoint):
        client, poller, idle = await endpoint.dial(), await endpoint.dial(), await endpoint.dial()
        poller.send(2, Fetch("t", 0, 0, 1, wait_ms=300_000))
        endpoint.service.held = held = []
        client.send(2, Produce("t", 0, b"b"))
        await endpoint.wait_until(lambda: bool(held) and bool(endpoint.service.parked))
        closing = asyncio.create_task(endpoint.server.close(drain_ms=10_000))
        assert type((await poller.read())[1]) is UnavailableError
        assert await idle.reader.read() == b""
        with pytest.raises(OSError):
            await endpoint.dial()
        client.send(3, Produce("t", 0, b"too late"))
        assert type((await client.read())[1]) is UnavailableError
        assert not closing.done()
        held[0](Produced(5))
        assert await client.read() == (2, Produced(5))
        await client.wait_cut()
        for each in (client, poller, idle):
            each.close()
        await closing

    run(test)


def test_draining_ends_in_time():
    async def test(endpoint):
        client = await endpoint.dial()
        endpoint.service.held = held = []
        client.send(2, Produce("t", 0, b"b"))
        await endpoint.wait_until(lambda: bool(held))
        await endpoint.server.close(drain_ms=10)
        await client.wait_cut()
        held[0](Produced(1))

    run(test)


def test_stop_accepting_leaves_those_inside_alone():
    async def test(endpoint):
        client = await endpoint.dial()
        endpoint.server.stop_accepting()
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            await endpoint.dial()
        assert await client.call(2, Produce("t", 0, b"b")) == Produced(0)

    run(test)


@pytest.mark.parametrize("method", ["flush", "tick"])
def test_a_connection_that_fails_stops_no_other(method, monkeypatch):
    async def test(endpoint):
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["part"]))
        unlucky, other = await endpoint.dial(), await endpoint.dial()
        victim, work = next(iter(endpoint.server._channels)), getattr(Channel, method)

        def fail(channel):
            if channel is victim:
                raise RuntimeError("the handler is closed")
            work(channel)

        monkeypatch.setattr(Channel, method, fail)
        endpoint.server.schedule(victim)
        other.send(2, Fetch("t", 0, 0, 1))
        endpoint.server.tick()
        await unlucky.wait_cut()
        assert isinstance((await other.read())[1], Fetched)
        assert set(reported) == {"connection"}
        monkeypatch.undo()
        await assert_unharmed(endpoint)

    run(test)


def test_an_answer_that_cannot_be_sent_costs_one_connection(monkeypatch):
    """The broker answers in the middle of its work: it must not meet a fault of a connection there."""

    async def test(endpoint):
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context["message"]))
        unlucky, other = await endpoint.dial(), await endpoint.dial()
        unlucky.send(2, Fetch("t", 0, 0, 1, wait_ms=300_000))
        await endpoint.wait_until(lambda: bool(endpoint.service.parked))
        done = next(iter(endpoint.service.parked))
        done("not an answer")
        await unlucky.wait_cut()
        assert reported == ["an answer could not be sent"]
        other.send(2, Fetch("t", 0, 0, 1))
        assert isinstance((await other.read())[1], Fetched)

    run(test)
