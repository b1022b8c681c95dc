"""The socket's side of a connection, on a transport that notes what is asked of it: when it reads, and when not."""

import pytest

from flotilla.frontends.tcp.budget import Budgets
from flotilla.frontends.tcp.channel import Channel
from flotilla.frontends.tcp.connection import CLOSING, DRAINING, Connection, ConnectionLimits
from flotilla.types.errors import UnavailableError
from flotilla.types.operations import Fetch, Produce, Produced, RemoveNode
from flotilla.types.operations.queue import Delivery, Pushed, Subscribe
from tests.unit.frontends.tcp.frames import HELLO, answers_in, asked
from tests.unit.frontends.tcp.test_connection import Host


class Transport:
    def __init__(self):
        self.is_reading = True
        self.is_gone = False
        self.has_ended = False
        self.unwritten_bytes = 0
        self.written = []

    def set_write_buffer_limits(self, high, low):
        """Nothing is ever held back here but by `unwritten_bytes`."""

    def get_extra_info(self, name):
        return None

    def get_write_buffer_size(self):
        return self.unwritten_bytes

    def writelines(self, buffers):
        self.written += buffers

    def write_eof(self):
        self.has_ended = True

    def is_closing(self):
        return self.is_gone

    def abort(self):
        self.is_gone = True

    def pause_reading(self):
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading
        self.is_reading = True


class Owner:
    """Plays the server: one channel, and the requests that it handed out."""

    def __init__(self, bounds=None, budgets=None):
        self.scratch = memoryview(bytearray(4096))
        self.scheduled = 0
        self.is_faulty = False
        self.tickets = []
        self._bounds = bounds
        self._budgets = budgets or Budgets()
        self.transport = Transport()
        self.channel = Channel(self)
        self.connection = self.channel.connection
        self.channel.connection_made(self.transport)
        self.send(asked(1, HELLO))
        self.channel.flush()
        self.answers()

    def connection_for(self, channel):
        return Connection(Host(), self._budgets, self._wake, self._serve, self._bounds)

    def principal_of(self, transport):
        return None

    def entered(self, channel):
        """Every client may."""

    def schedule(self, channel):
        self._wake()

    def _wake(self):
        self.scheduled += 1

    def _serve(self, ticket):
        self.tickets.append(ticket)
        if self.is_faulty:
            self.channel.cut("a fault of the service")

    def send(self, data):
        """One read of the socket."""
        assert self.transport.is_reading
        self.channel.get_buffer(-1)[: len(data)] = data
        self.channel.buffer_updated(len(data))

    def asked_for(self):
        return [ticket.correlation_id for ticket in self.tickets]

    def answers(self):
        written, self.transport.written = self.transport.written, []
        return answers_in(b"".join(written))


def removals(*numbers):
    return b"".join(asked(number, RemoveNode(number)) for number in numbers)


def test_a_client_that_reads_gets_its_answer_and_nothing_else_happens():
    owner = Owner()
    owner.send(removals(2) + removals(3)[:5])
    owner.tickets[0].answer(Produced(7))
    owner.channel.flush()
    assert owner.answers() == [(2, Produced(7))]
    assert owner.transport.is_reading
    owner.send(removals(3)[5:])
    assert owner.asked_for() == [2, 3]


def test_beyond_the_bound_nothing_is_read_until_an_answer_has_left():
    owner = Owner(ConnectionLimits(requests_max=2))
    owner.send(removals(2, 3, 4, 5))
    assert owner.asked_for() == [2, 3]
    assert not owner.transport.is_reading
    owner.tickets[0].answer(Produced(1))
    assert owner.asked_for() == [2, 3], "answered, but still here"
    owner.channel.flush()
    assert owner.asked_for() == [2, 3, 4]
    assert not owner.transport.is_reading, "full again"
    for ticket in owner.tickets:
        ticket.answer(Produced(1))
    owner.channel.flush()
    assert owner.asked_for() == [2, 3, 4, 5]
    assert owner.transport.is_reading


def test_a_channel_that_waits_for_memory_goes_on_when_it_gets_some():
    budgets = Budgets(1000)
    one, two = Owner(budgets=budgets), Owner(budgets=budgets)
    one.send(asked(2, Produce("t", 0, b"b" * 700)))
    two.send(asked(2, Produce("t", 0, b"c" * 700)) + removals(3))
    assert two.asked_for() == []
    assert not two.transport.is_reading
    two.channel.flush()
    assert not two.transport.is_reading
    scheduled = two.scheduled
    one.tickets[0].answer(Produced(1))
    assert two.scheduled == scheduled + 1
    two.channel.flush()
    assert two.asked_for() == [2, 3]
    assert two.transport.is_reading


def test_draining_refuses_what_was_left_unread_and_then_ends():
    owner = Owner(ConnectionLimits(requests_max=2))
    owner.send(removals(2, 3, 4))
    owner.connection.drain()
    owner.channel.flush()
    assert owner.connection.state == DRAINING
    assert not owner.transport.is_reading
    owner.tickets[0].answer(Produced(1))
    owner.channel.flush()
    owner.channel.flush()
    assert owner.asked_for() == [2, 3]
    assert [(number, type(answer)) for number, answer in owner.answers()] == [(2, Produced), (4, UnavailableError)]
    assert owner.transport.is_reading
    owner.tickets[1].answer(Produced(2))
    owner.channel.flush()
    assert owner.connection.state == CLOSING
    assert owner.transport.has_ended


def test_an_end_reads_on_in_order_to_forget():
    owner = Owner(ConnectionLimits(requests_max=1))
    owner.send(removals(2, 3))
    owner.connection.finish("enough")
    owner.channel.flush()
    assert owner.transport.has_ended
    assert owner.transport.is_reading
    owner.send(removals(4))
    assert owner.asked_for() == [2]


def test_a_client_that_takes_no_pushes_is_read_from_once_more_at_most():
    owner = Owner(ConnectionLimits(output_bytes_max=1000))
    owner.send(asked(2, Subscribe("t", "g", "me", 5)))
    owner.transport.unwritten_bytes = 500
    owner.channel.pause_writing()
    owner.tickets[0].answer(Pushed([Delivery(0, 1, 0, 1, 1, b"b" * 600)], 500))
    owner.channel.flush()
    assert owner.answers() == []
    owner.send(removals(3))
    assert owner.asked_for() == [2]
    assert not owner.transport.is_reading
    owner.transport.unwritten_bytes = 0
    owner.channel.resume_writing()
    owner.channel.flush()
    assert [number for number, _ in owner.answers()] == [2]
    assert owner.asked_for() == [2, 3]
    assert owner.transport.is_reading


@pytest.mark.parametrize("is_full", [False, True])
def test_a_transport_that_is_closing_is_left_alone(is_full):
    owner = Owner(ConnectionLimits(requests_max=1))
    owner.send(removals(2, 3) if is_full else removals(2))
    before = owner.transport.is_reading
    owner.transport.is_gone = True
    owner.tickets[0].answer(Produced(1))
    owner.channel.flush()
    assert (owner.answers(), owner.asked_for(), owner.transport.is_reading) == ([], [2], before)


def test_a_fault_that_cuts_the_connection_leaves_its_transport_alone():
    owner = Owner(ConnectionLimits(requests_max=1))
    owner.send(removals(2, 3))
    owner.is_faulty = True
    owner.tickets[0].answer(Produced(1))
    owner.channel.flush()
    assert owner.asked_for() == [2, 3]
    assert owner.transport.is_gone
    assert not owner.transport.is_reading


def test_a_large_frame_is_received_into_its_own_memory():
    owner = Owner()
    frame = asked(2, Produce("t", 0, b"b" * 200_000))
    owner.send(frame[:100])
    room = owner.channel.get_buffer(-1)
    assert len(room) == len(frame) - 100
    room[:] = frame[100:]
    owner.channel.buffer_updated(len(room))
    assert bytes(owner.tickets[0].request.batch) == b"b" * 200_000


def test_sent_bytes_are_counted():
    owner = Owner()
    before = owner.channel.sent_bytes
    owner.send(asked(2, Fetch("t", 0, 0, 1)))
    owner.tickets[0].answer(Produced(1))
    owner.channel.flush()
    assert owner.channel.sent_bytes - before == sum(map(len, owner.transport.written))
