"""Records that are waited for one by one go a quick way, and nothing that happens on it loses or doubles one."""

import threading
from collections import deque

import pytest

from flotilla import Client, OutcomeUnknownError
from flotilla.client.producer import _direct_connection as direct_module
from flotilla.client.producer._direct_connection import WORTH_WANTS, DirectConnections
from flotilla.client.producer._fast_path import FastPath
from flotilla.client.producer._partition_lane import PartitionLane
from flotilla.client.producer._record_buffer import RecordBuffer
from flotilla.types.address import parse_address
from flotilla.types.errors import InvalidArgumentError, UnavailableError
from flotilla.types.operations import Produce
from tests.unit.client.test_client import interrupt_when

#: Enough for the quick way: the first record makes the topic known, and the last of the others finds it worth it.
WARM = [b"warm-%d" % number for number in range(WORTH_WANTS + 2)]


@pytest.fixture
def client(servers):
    servers.cluster.create("orders")
    with Client(servers.addresses) as client:
        for payload in WARM:
            client.produce("orders", payload)
        yield client


class Produces:
    """Lets those that are named by their position, of all from now on, be carried out without a word of it."""

    def __init__(self, servers, *unanswered):
        self.seen = threading.Event()
        self.count = 0
        #: The answers that were held back, and their connections.
        self.withheld = deque()
        handle = servers.cluster.handle
        self._run = servers.run

        def hold(node, request, done, *needed):
            if not isinstance(request, Produce):
                return handle(node, request, done, *needed)
            self.count += 1
            if self.count not in unanswered:
                return handle(node, request, done, *needed)
            handle(node, request, lambda answer: self.withheld.append((done, answer)), *needed)
            self.seen.set()
            return None

        servers.cluster.handle = hold

    def release(self):
        async def answer():
            while self.withheld:
                done, answer = self.withheld.popleft()
                done(answer)

        self._run(answer())


def test_single_awaited_records_have_a_connection_of_their_own(servers, monkeypatch):
    servers.cluster.create("orders")
    with Client(servers.addresses) as client:
        for payload in WARM[:-2]:
            client.produce("orders", payload)
        before = servers.connections()
        receipts = [client.produce("orders", payload) for payload in WARM[-2:]]
        assert servers.connections() == before + 1
        # The client's own thread has nothing to do with it any more.
        monkeypatch.setattr("flotilla.client.producer.sync.Producer.send_record", None)
        receipts.append(client.produce("orders", b"x", key=b"k", headers={"a": b"b"}))
    assert [receipt.offset for receipt in receipts] == [len(WARM) - 2, len(WARM) - 1, len(WARM)]
    assert servers.cluster.stored("orders") == [*WARM, b"x"]


def test_an_answer_that_does_not_come(servers, client):
    Produces(servers, 1)
    assert client.produce("orders", b"1").offset == len(WARM)
    assert client.produce("orders", b"2").offset == len(WARM) + 1
    assert servers.cluster.stored("orders") == [*WARM, b"1", b"2"]


def test_without_any_answer_the_outcome_is_unknown(servers, client):
    Produces(servers, 1)
    servers.cluster.fault = lambda node, request: (
        UnavailableError("later") if servers.cluster.stored("orders")[-1] == b"1" else None
    )
    with pytest.raises(OutcomeUnknownError):
        client.produce("orders", b"1", timeout_ms=600)


def test_a_broker_that_has_started_again(servers, client):
    port = parse_address(servers.cluster.addresses[1]).port
    servers.shut(1)
    servers.open(1, port)
    assert [client.produce("orders", payload).offset for payload in (b"1", b"2")] == [len(WARM), len(WARM) + 1]
    assert servers.cluster.stored("orders") == [*WARM, b"1", b"2"]


def test_another_leader(servers, client):
    servers.cluster.move("orders", 0, 2)
    sent = [b"%d" % number for number in range(2 * WORTH_WANTS)]
    for payload in sent:
        client.produce("orders", payload)
    assert servers.cluster.stored("orders") == [*WARM, *sent]


def test_a_refused_record_leaves_no_gap(servers, client):
    servers.cluster.fault = lambda node, request: InvalidArgumentError("no") if isinstance(request, Produce) else None
    with pytest.raises(InvalidArgumentError):
        client.produce("orders", b"1")
    servers.cluster.fault = lambda node, request: None
    for payload in (b"2", b"3"):
        client.produce("orders", payload)
    assert servers.cluster.stored("orders") == [*WARM, b"2", b"3"]


@pytest.mark.slow
def test_an_interrupted_produce_is_still_completed(servers, client):
    produces = Produces(servers, 1)
    thread = interrupt_when(produces.seen)
    with pytest.raises(KeyboardInterrupt):
        client.produce("orders", b"1")
    thread.join()
    assert client.produce("orders", b"2").offset == len(WARM) + 1
    assert servers.cluster.stored("orders") == [*WARM, b"1", b"2"]


@pytest.mark.parametrize("step", [(PartitionLane, "end_direct"), (RecordBuffer, "release")])
def test_an_interrupt_of_the_bookkeeping_leaves_a_producer_that_works(servers, client, monkeypatch, step):
    method = getattr(*step)

    def interrupted(*arguments):
        monkeypatch.setattr(*step, method)
        raise KeyboardInterrupt

    monkeypatch.setattr(*step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.produce("orders", b"1")
    assert client.produce("orders", b"2").offset == len(WARM) + 1
    assert client._own_producers["orders"].unresolved() == []
    assert servers.cluster.stored("orders") == [*WARM, b"1", b"2"]


@pytest.mark.parametrize("then", [lambda client: client.produce("orders", b"2"), Client.close])
def test_an_interrupt_after_a_failure_leaves_a_producer_that_works(servers, client, monkeypatch, then):
    hand_over = FastPath._hand_over

    def interrupted(*arguments, **options):
        monkeypatch.setattr(FastPath, "_hand_over", hand_over)
        raise KeyboardInterrupt

    monkeypatch.setattr(FastPath, "_hand_over", interrupted)
    Produces(servers, 1)
    with pytest.raises(KeyboardInterrupt):
        client.produce("orders", b"1")
    then(client)
    assert client._own_producers["orders"].unresolved() == []
    assert servers.cluster.stored("orders")[: len(WARM) + 1] == [*WARM, b"1"]


def test_another_thread_waits_for_the_number_before_its_own(servers, client, monkeypatch):
    monkeypatch.setattr(direct_module, "_TIMEOUT_S", 30)
    with Client(servers.addresses) as patient:
        for payload in WARM:
            patient.produce("orders", payload)
        produces = Produces(servers, 1)
        threads = [threading.Thread(target=patient.produce, args=("orders", payload)) for payload in (b"1", b"2")]
        threads[0].start()
        assert produces.seen.wait(10)
        threads[1].start()
        while len(patient._own_producers["orders"].unresolved()) < 2:
            threads[1].join(0.01)
        assert produces.count == 1
        produces.release()
        for thread in threads:
            thread.join()
        assert produces.count == 2, "nothing had to be said twice"
    assert servers.cluster.stored("orders") == [*WARM, *WARM, b"1", b"2"]


def test_a_record_that_others_have_overtaken_travels_with_them(servers, client, monkeypatch):
    producer = client._own_producers["orders"]
    take = DirectConnections.take

    def overtaken(direct, address):
        monkeypatch.setattr(DirectConnections, "take", take)
        client._run(send())
        return take(direct, address)

    async def send():
        # On the client's thread, so that it is still in the buffer when this returns.
        producer.send(b"1")

    monkeypatch.setattr(DirectConnections, "take", overtaken)
    client.produce("orders", b"2")
    assert servers.cluster.stored("orders") == [*WARM, b"1", b"2"]


def test_a_client_that_is_closed_meanwhile_says_that_it_does_not_know(servers, client):
    produces = Produces(servers, *range(1, 100))
    errors = []

    def produce():
        try:
            client.produce("orders", b"1")
        except OutcomeUnknownError as error:
            errors.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    assert produces.seen.wait(10)
    client.close(timeout_ms=10)
    thread.join()
    assert len(errors) == 1


@pytest.mark.parametrize("fields", [{"idempotency_key": b"once"}, {"payload": bytes(100_000)}])
def test_records_that_gain_nothing_go_through_the_buffer(client, fields, monkeypatch):
    monkeypatch.setattr(DirectConnections, "take", None)
    assert client.produce("orders", **{"payload": b"1", **fields}).offset == len(WARM)


def test_a_connection_that_was_idle_for_long_is_not_relied_upon(servers, client, monkeypatch):
    monkeypatch.setattr(direct_module, "_IDLE_S_MAX", -1)
    produces = Produces(servers)
    client.produce("orders", b"1")
    assert produces.count == 1
    assert servers.cluster.stored("orders") == [*WARM, b"1"]


# The connections themselves.


def take_when_worth_it(direct, address):
    for _ in range(WORTH_WANTS - 1):
        assert direct.take(address) is None
    return direct.take(address)


def test_a_connection_serves_one_at_a_time(servers):
    direct = DirectConnections("test")
    address = parse_address(servers.addresses[0])
    connection = take_when_worth_it(direct, address)
    assert connection is not None
    assert direct.take(address) is None
    direct.put_back(connection)
    assert direct.take(address) is connection
    direct.discard(connection)
    again = take_when_worth_it(direct, address)
    assert again is not None
    direct.close()
    # It was away when the others were closed.
    direct.put_back(again)
    assert take_when_worth_it(direct, address) is None
    with pytest.raises(OSError, match="descriptor"):
        again.ask(Produce("orders", 0, b""), 0)


def test_a_broker_that_cannot_be_reached_is_not_tried_each_time(servers, monkeypatch):
    address = parse_address(servers.addresses[0])
    servers.shut(1)
    dialled = []
    dial = direct_module.DirectConnection
    monkeypatch.setattr(direct_module, "DirectConnection", lambda *args: dialled.append(args) or dial(*args))
    direct = DirectConnections("test")
    assert take_when_worth_it(direct, address) is None
    assert take_when_worth_it(direct, address) is None
    assert len(dialled) == 2
