"""A connection without a socket: handshake, bounds, order, garbage, time."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.codec.frames import DIRECT_BYTES_MIN, frame_header
from flotilla.frontends.tcp.connection import (
    CLOSING,
    DRAINING,
    NEW,
    OPEN,
    TICK_MS,
    Budgets,
    Connection,
    ConnectionLimits,
    is_too_slow,
)
from flotilla.types import limits
from flotilla.types.errors import (
    InvalidArgumentError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from flotilla.types.operations import Done, Fetch, Fetched, Hello, Ping, Produce, Produced, RemoveNode, Welcome
from flotilla.types.operations.queue import (
    AddCredit,
    Delivery,
    Extend,
    Poll,
    Polled,
    Pushed,
    Subscribe,
    Unsubscribe,
    Withdraw,
)
from flotilla.types.operations.transactions import Stage
from tests.unit.frontends.tcp.frames import HELLO, answers_in, asked


class Host:
    node = 7
    metadata_index = 0
    cluster_id = "blue"

    def __init__(self):
        self.lost_members = []

    def now_ms(self):
        return 1_700_000_000_123

    def lost(self, members):
        self.lost_members += members


class Client:
    """Both ends: feeds bytes, collects the requests that come out, and reads answers."""

    def __init__(self, bounds=None, budgets=None, greet=True):
        self.wakes = 0
        self.budgets = budgets or Budgets()
        self.host = Host()
        self.tickets = []
        self.connection = Connection(self.host, self.budgets, self._wake, self.tickets.append, bounds)
        if greet:
            self.send(asked(1, HELLO))
            self.read()

    def _wake(self):
        self.wakes += 1

    def send(self, data):
        """Requests that this makes possible."""
        before = len(self.tickets)
        self.connection.feed(memoryview(data))
        return [ticket.request for ticket in self.tickets[before:]]

    def pump(self):
        """Requests that are possible now."""
        before = len(self.tickets)
        self.connection.pump()
        return [ticket.request for ticket in self.tickets[before:]]

    def read(self):
        return answers_in(b"".join(self.connection.take_output()))

    def tick(self, ms):
        for _ in range(ms // TICK_MS):
            self.connection.tick()


# The handshake.


def test_hello_is_welcomed():
    client = Client(greet=False)
    assert client.connection.state == NEW
    assert client.send(asked(9, Hello(1, 5))) == []
    assert client.wakes == 1
    assert client.read() == [(9, Welcome(1, 7, "blue", limits.CLIENT_FRAME_BYTES_MAX, 256, 1_700_000_000_123))]
    assert client.connection.state == OPEN


@pytest.mark.parametrize("versions", [(2, 3), (0, 0), (5, 1)])
def test_an_unknown_version_is_refused_by_name(versions):
    client = Client(greet=False)
    client.send(asked(9, Hello(*versions)))
    ((correlation_id, error),) = client.read()
    assert correlation_id == 9
    assert type(error) is InvalidArgumentError
    assert "this broker speaks 1 to 1" in str(error)
    assert client.connection.state == CLOSING


def test_nothing_is_understood_before_hello():
    client = Client(greet=False)
    assert client.send(asked(3, RemoveNode(1)) + asked(4, HELLO)) == []
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (3, InvalidArgumentError)
    assert client.connection.state == CLOSING


def test_a_request_may_follow_hello_at_once():
    client = Client(greet=False)
    assert client.send(asked(1, HELLO) + asked(2, RemoveNode(4))) == [RemoveNode(4)]


@pytest.mark.parametrize("length", [limits.HANDSHAKE_FRAME_BYTES_MAX + 1, 2**31])
def test_strangers_send_small_frames_only(length):
    client = Client(greet=False)
    client.send(frame_header(length))
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (0, InvalidArgumentError)
    assert str(limits.HANDSHAKE_FRAME_BYTES_MAX) in str(error)


def test_hello_is_said_once():
    client = Client()
    assert client.send(asked(2, HELLO) + asked(3, RemoveNode(1))) == [RemoveNode(1)]
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (2, InvalidArgumentError)
    assert client.connection.state == OPEN


# Requests and answers.


def test_answers_come_in_any_order_with_their_own_id():
    client = Client()
    client.send(asked(10, Fetch("t", 0, 0, 100, 5000)) + asked(11, RemoveNode(1)) + asked(12, RemoveNode(2)))
    poll, first, second = client.tickets
    second.answer(NotFoundError("no such node"))
    first.answer(Done())
    answers = client.read()
    assert [(number, type(answer)) for number, answer in answers] == [(12, NotFoundError), (11, Done)]
    poll.answer(Fetched([b"batch"], 0, 1))
    assert client.read() == [(10, Fetched([b"batch"], 0, 1))]


def test_the_writer_is_woken_once_for_many_answers():
    client = Client()
    client.send(asked(10, RemoveNode(1)) + asked(11, RemoveNode(2)))
    before = client.wakes
    for ticket in client.tickets:
        ticket.answer(Done())
    assert client.wakes == before + 1


def test_a_second_answer_is_dropped():
    client = Client()
    client.send(asked(10, RemoveNode(1)))
    client.tickets[0].answer(Done())
    client.tickets[0].answer(Done())
    assert len(client.read()) == 1


def test_an_answer_that_fits_no_frame_becomes_an_error():
    client = Client()
    client.send(asked(10, Fetch("t", 0, 0, 100)))
    client.tickets[0].answer(Fetched([bytes(limits.CLIENT_FRAME_BYTES_MAX)], 0, 1))
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (10, InvalidArgumentError)


def test_an_unknown_request_is_answered_and_the_connection_goes_on():
    client = Client()
    unknown = b"\x08\x05"
    frame = (4 + len(unknown)).to_bytes(4, "big") + len(unknown).to_bytes(4, "big") + unknown
    assert client.send(frame + asked(6, RemoveNode(1))) == [RemoveNode(1)]
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (5, InvalidArgumentError)
    assert client.connection.state == OPEN


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", b"\0\0\0\6\0\0\0\2\xff\xff", b"\xff" * 64])
@pytest.mark.parametrize("greet", [False, True])
def test_garbage_is_answered_and_ends_the_connection(garbage, greet):
    client = Client(greet=greet)
    assert client.send(garbage) == []
    ((correlation_id, error),) = client.read()
    assert (correlation_id, type(error)) == (0, InvalidArgumentError)
    assert client.connection.state == CLOSING
    # It reads on, in order to forget.
    assert client.connection.is_reading
    assert client.send(asked(1, HELLO)) == []


@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_do_harm(data, greet):
    client = Client(greet=greet)
    for ticket in client.tickets:
        ticket.answer(Done())
    client.send(data)
    client.read()


# Bounds.


def test_requests_are_bounded_by_count_until_their_answers_have_left():
    client = Client(ConnectionLimits(requests_max=3))
    assert len(client.send(b"".join(asked(number, RemoveNode(number)) for number in range(1, 10)))) == 3
    assert not client.connection.is_reading
    client.tickets[1].answer(Done())
    # Answered, but not handed to the socket yet.
    assert client.pump() == []
    assert [number for number, _ in client.read()] == [2]
    assert client.pump() == [RemoveNode(4)]
    for ticket in client.tickets:
        ticket.answer(Done())
    client.read()
    assert client.pump() == [RemoveNode(5), RemoveNode(6), RemoveNode(7)]
    for ticket in client.tickets:
        ticket.answer(Done())
    client.read()
    assert client.pump() == [RemoveNode(8), RemoveNode(9)]
    assert client.connection.is_reading


def test_batches_are_bounded_by_bytes_until_they_are_answered():
    client = Client(ConnectionLimits(request_bytes_max=1000))
    produce = Produce("t", 0, b"b" * 600)
    assert len(client.send(b"".join(asked(number, produce) for number in range(1, 5)))) == 2
    assert not client.connection.is_reading
    client.tickets[0].answer(Produced(0))
    client.read()
    assert len(client.pump()) == 1


def test_reads_of_a_client_that_does_not_read_are_refused():
    client = Client(ConnectionLimits(output_bytes_max=1000))
    client.send(asked(2, Fetch("t", 0, 0, 1)) + asked(3, Fetch("t", 1, 0, 1)) + asked(4, Produce("t", 0, b"b")))
    client.tickets[0].answer(Fetched([b"x" * 2000], 0, 1))
    client.tickets[1].answer(Fetched([b"x" * 2000], 0, 1))
    # The answer to a change is never replaced.
    client.tickets[2].answer(Produced(5))
    assert not client.connection.is_reading
    assert client.connection.output_bytes < 3000
    answers = dict(client.read())
    assert type(answers[2]) is Fetched
    assert type(answers[3]) is OverloadedError
    assert answers[3].retry_after_ms > 0
    assert answers[4] == Produced(5)
    assert client.connection.is_reading


def test_all_connections_share_a_budget_and_wait_for_it():
    budgets = Budgets(1000)
    one, two = Client(budgets=budgets), Client(budgets=budgets)
    assert len(one.send(asked(1, Produce("t", 0, b"b" * 700)))) == 1
    assert two.send(asked(1, Produce("t", 0, b"c" * 700))) == []
    assert not two.connection.is_reading
    wakes = two.wakes
    one.tickets[0].answer(Produced(1))
    assert two.wakes == wakes + 1
    assert two.connection.is_reading
    assert [bytes(request.batch) for request in two.pump()] == [b"c" * 700]
    two.tickets[0].answer(Produced(2))
    assert budgets.small.used_bytes == 0


def test_a_large_frame_that_crawls_in_does_not_stop_small_ones():
    budgets = Budgets(100_000)
    slow, other, small = (Client(budgets=budgets) for _ in range(3))
    large = asked(1, Produce("t", 0, b"b" * 90_000))
    slow.send(large[:100])
    assert budgets.large.used_bytes > DIRECT_BYTES_MIN
    assert other.send(large[:100]) == []
    assert not other.connection.is_reading
    assert len(small.send(asked(1, Produce("t", 0, b"small")))) == 1
    slow.connection.finish("cut")
    assert other.connection.is_reading
    assert len(other.send(large[100:])) == 1


def test_requests_without_a_batch_hold_nothing_of_the_budget():
    client = Client()
    client.send(asked(1, Fetch("t" * 1000, 0, 0, 1, 30_000)))
    assert client.budgets.small.used_bytes == 0


def test_a_batch_that_is_staged_holds_its_part_of_the_budget():
    client = Client()
    client.send(asked(1, Stage("t", 0, "job", bytes(1000))))
    assert client.budgets.small.used_bytes > 1000


def test_a_frame_over_the_limit_is_refused_from_its_length():
    client = Client(ConnectionLimits(frame_bytes_max=5000))
    client.send(frame_header(5001))
    ((_, error),) = client.read()
    assert "over the limit of 5000" in str(error)
    assert client.connection.frames.room() is None


# The end.


def test_the_end_gives_up_what_waits_and_gives_back_what_is_held():
    client = Client()
    client.send(asked(1, Fetch("t", 0, 0, 1, 30_000)) + asked(2, Produce("t", 0, b"b" * 100)) + asked(3, RemoveNode(1)))
    poll, produce, removal = client.tickets
    given_up = []
    client.connection.started(poll, partial(given_up.append, "poll"))
    removal.answer(Done())
    client.connection.started(removal, partial(given_up.append, "removal"))
    client.send(asked(4, Produce("t", 0, b"b" * 90_000))[:500])
    assert client.budgets.large.used_bytes > 0
    client.connection.finish("lost")
    assert given_up == ["poll"]
    assert client.budgets.large.used_bytes == 0
    # The service still has the batch.
    assert client.budgets.small.used_bytes > 0
    produce.answer(Produced(1))
    assert client.budgets.small.used_bytes == 0
    poll.answer(Done())
    client.connection.finish("again")
    assert client.connection.reason == "lost"


@pytest.mark.parametrize("size", [DIRECT_BYTES_MIN // 2, DIRECT_BYTES_MIN])
def test_a_connection_that_ends_while_waiting_for_memory_waits_no_longer(size):
    budgets = Budgets(DIRECT_BYTES_MIN)
    one, two = Client(budgets=budgets), Client(budgets=budgets)
    one.send(asked(1, Produce("t", 0, bytes(size))))
    two.send(asked(1, Produce("t", 0, bytes(size))))
    budget = budgets.of(size)
    assert budget.waiting_count == 1
    two.connection.finish("lost")
    assert budget.waiting_count == 0
    one.tickets[0].answer(Produced(1))
    assert budget.used_bytes == 0


def test_draining_answers_requests_in_flight_and_refuses_the_rest():
    client = Client()
    client.send(asked(1, Fetch("t", 0, 0, 1, 30_000)) + asked(2, Produce("t", 0, b"b")))
    poll, produce = client.tickets
    given_up = []
    client.connection.started(poll, partial(given_up.append, "poll"))
    client.connection.drain()
    assert client.connection.state == DRAINING
    assert given_up == ["poll"]
    assert client.send(asked(3, RemoveNode(1))) == []
    assert [(number, type(answer)) for number, answer in client.read()] == [
        (1, UnavailableError),
        (3, UnavailableError),
    ]
    assert not client.connection.is_drained
    produce.answer(Produced(4))
    assert client.read() == [(2, Produced(4))]
    assert client.connection.is_drained


def test_draining_ends_strangers():
    client = Client(greet=False)
    client.connection.drain()
    assert client.connection.state == CLOSING


# Time.


def test_hello_has_a_deadline():
    client = Client(greet=False)
    client.tick(limits.HANDSHAKE_MS_MAX)
    assert client.connection.state == NEW
    client.send(b"\0")
    client.tick(TICK_MS)
    assert client.connection.state == CLOSING
    ((_, error),) = client.read()
    assert type(error) is UnavailableError


def test_one_byte_a_second_is_too_slow():
    client = Client()
    frame = asked(1, Produce("t", 0, b"b" * 100))
    seconds = 0
    while client.connection.state == OPEN:
        client.send(frame[seconds : seconds + 1])
        client.tick(TICK_MS)
        seconds += 1
    # The first of them came together with the Hello.
    assert seconds == limits.TRANSFER_MS_MAX // TICK_MS + 2
    assert client.tickets == []


def test_a_large_frame_at_a_fair_rate_may_take_its_time():
    client = Client()
    size = 30 * limits.TRANSFER_BYTES_PER_SECOND_MIN
    frame = asked(1, Produce("t", 0, bytes(size)))
    for start in range(0, len(frame), limits.TRANSFER_BYTES_PER_SECOND_MIN):
        client.send(frame[start : start + limits.TRANSFER_BYTES_PER_SECOND_MIN])
        client.tick(TICK_MS)
    assert len(client.tickets) == 1


def test_many_frames_are_not_one_slow_frame():
    client = Client()
    frame = asked(1, RemoveNode(1))
    for _ in range(60):
        # Each second ends in the middle of a frame, always of another one.
        client.send(frame[3:] if client.connection.state == OPEN and client.tickets else frame)
        for ticket in client.tickets:
            ticket.answer(Done())
        client.read()
        client.send(frame[:3])
        client.tick(TICK_MS)
        assert client.connection.state == OPEN


def test_a_wait_of_our_own_does_not_make_a_client_slow():
    client = Client(ConnectionLimits(requests_max=1))
    frame = asked(1, RemoveNode(1))
    client.send(frame + frame[:5])
    assert not client.connection.is_reading
    client.tick(10 * limits.TRANSFER_MS_MAX)
    assert client.connection.state == OPEN


def test_an_idle_connection_ends_but_not_one_that_waits_for_an_answer():
    idle, waiting = Client(), Client()
    waiting.send(asked(1, Fetch("t", 0, 0, 1, 300_000)))
    for client in (idle, waiting):
        client.tick(limits.IDLE_MS_MAX - TICK_MS)
        assert client.connection.state == OPEN
        client.tick(2 * TICK_MS)
    assert (idle.connection.state, idle.connection.reason) == (CLOSING, "idle")
    assert waiting.connection.state == OPEN


@pytest.mark.parametrize(
    ("ticks", "moved_bytes", "expected"),
    [(10, 0, False), (11, 0, True), (11, 64 * 1024, False), (12, 64 * 1024, True), (200, 18 * 1024 * 1024, False)],
)
def test_how_fast_is_fast_enough(ticks, moved_bytes, expected):
    assert is_too_slow(ticks, moved_bytes) is expected


# Subscriptions.


class Stream:
    """What the service keeps of a subscription."""

    def __init__(self):
        self.credit = 0
        self.cancels = 0
        self.ended = []

    def __call__(self):
        self.cancels += 1

    def end(self, ended):
        self.ended.append(ended)

    def add_credit(self, messages):
        self.credit += messages


def subscribed(client, correlation_id=20):
    client.send(asked(correlation_id, Subscribe("t", "g", "me", 5)))
    ticket, stream = client.tickets[-1], Stream()
    client.connection.started(ticket, stream)
    return ticket, stream


def test_a_subscription_is_answered_many_times():
    client = Client()
    ticket, _ = subscribed(client)
    pushes = [Pushed([Delivery(0, 1, offset, 1, 1, b"batch")], 500) for offset in range(3)]
    for push in pushes:
        ticket.answer(push)
    assert client.read() == [(20, push) for push in pushes]
    ticket.answer(UnavailableError("over"))
    ticket.answer(pushes[0])
    assert [type(answer) for _, answer in client.read()] == [UnavailableError]
    assert client.connection.request_count == 0


def test_credit_and_the_end_go_to_the_subscription_they_name():
    client = Client()
    (first, one), (_, other) = subscribed(client, 20), subscribed(client, 21)
    client.send(asked(22, AddCredit(21, 7)) + asked(23, Unsubscribe(20)))
    first.answer(Pushed([]))
    assert client.read() == [(22, Done()), (20, Pushed([]))]
    (ended,) = one.ended
    ended()
    client.send(asked(24, AddCredit(20, 9)) + asked(25, Unsubscribe(20)))
    first.answer(Pushed([]))
    assert client.read() == [(23, Done()), (24, Done()), (25, Done())]
    assert (one.credit, one.cancels, other.credit, other.ended) == (0, 0, 7, [])


def test_a_request_that_is_withdrawn_is_answered_at_once():
    client = Client()
    client.send(
        asked(20, Poll("t", "g", "me", wait_ms=9_000))
        + asked(21, Poll("t", "g", "me", is_auto_ack=True))
        + asked(22, Fetch("t", 0, 0, 100, wait_ms=9_000))
    )
    ends: list[int] = []
    for ticket in client.tickets[-3:]:
        client.connection.started(ticket, lambda number=ticket.correlation_id: ends.append(number))
    for number, request in enumerate((20, 21, 22, 99), 30):
        client.send(asked(number, Withdraw(request)))
    answers = client.read()
    assert [(number, type(answer)) for number, answer in answers] == [
        (20, Polled),
        (30, Done),
        (31, Done),
        (22, UnavailableError),
        (32, Done),
        (33, Done),
    ]
    # What is acknowledged as it leaves may be on its way.
    assert ends == [20, 22]
    client.tickets[-2].answer(Polled([], 500))
    assert client.read() == [(21, Polled([], 500))]
    assert client.connection.request_count == 0


def test_a_ping_is_answered_at_once_and_reaches_no_service():
    client = Client()
    client.send(asked(20, Poll("t", "g", "me", wait_ms=9_000)) + asked(21, Ping()))
    assert client.read() == [(21, Done())]
    assert [ticket.correlation_id for ticket in client.tickets] == [20]


def test_a_subscription_is_not_withdrawn():
    client = Client()
    _, stream = subscribed(client)
    client.send(asked(30, Withdraw(20)))
    assert client.read() == [(30, Done())]
    assert (stream.cancels, stream.ended) == (0, [])


def test_the_end_of_a_connection_ends_its_subscriptions_and_names_its_members():
    client = Client()
    _, stream = subscribed(client)
    client.send(asked(30, Poll("t", "g", "you")) + asked(31, Extend("t", 0, "g", "them", [], 500)))
    client.send(asked(32, Stage("t", 0, "x", b"", member="us")) + asked(33, Stage("t", 0, "y", b"")))
    client.connection.finish("gone")
    client.connection.finish("gone twice")
    assert stream.cancels == 1
    assert client.host.lost_members == ["me", "you", "them", "us"]


def test_the_end_of_a_gateways_connection_takes_no_leases_back():
    client = Client(greet=False)
    client.send(asked(1, Hello(1, 1, "an endpoint", is_gateway=True)))
    client.send(asked(30, Poll("t", "g", "you")) + asked(31, Extend("t", 0, "g", "them", [], 500)))
    client.connection.finish("gone")
    assert client.host.lost_members == []
