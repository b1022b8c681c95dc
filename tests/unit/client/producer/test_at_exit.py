"""Records sent by a process that ends without closing its client."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from flotilla.client._options import TIMEOUT_MS_DEFAULT
from flotilla.client.producer._at_exit import EXIT_MS_MAX
from flotilla.testing import LocalBroker
from flotilla.types.operations import Produce
from tests.unit.client.test_client import UnansweredRequests

pytestmark = pytest.mark.slow

#: Far more than it takes, and less than a client waits by itself.
PATIENCE_S = TIMEOUT_MS_DEFAULT / 1000 / 2

#: Nothing of it leaves by itself in a minute.
SEND = """
import os, sys
from flotilla import Client
client = Client(sys.argv[1])
producer = client.producer("orders", linger_ms=60_000)
for number in range(1_000):
    producer.send(b"%d" % number)
"""
LEAVE_IT_TO_A_CHILD = """
import os, sys
if pid := os.fork():
    sys.exit(os.waitpid(pid, 0)[1])
"""
#: The process sees that it has failed, and never asks why.
FAIL = """
import sys, time
from flotilla import Client
client = Client(sys.argv[1])
delivery = client.producer("orders", timeout_ms=50).send(b"x")
while not delivery.done():
    time.sleep(0.005)
"""
SENT = [b"%d" % number for number in range(1_000)]
UNCLOSED = "ResourceWarning: a producer of orders was not closed when 1000 of its records had no answer"


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(default_partitions=1) as broker:
        yield broker


def stored(broker: LocalBroker) -> list[bytes]:
    with broker.client() as client:
        return [message.payload for message in client.peek("orders", max_messages=10_000)]


def end(address: str, code: str, *options: str, exit_code: int = 0) -> str:
    """What a process has to say on its way out."""
    began = time.monotonic()
    command = [sys.executable, *options, "-c", code, address]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert time.monotonic() - began < PATIENCE_S
    assert ended.returncode == exit_code, ended.stderr
    return ended.stdout + ended.stderr


def test_a_sent_record_is_stored_when_the_process_ends(broker):
    assert end(broker.address, SEND) == ""
    assert stored(broker) == SENT


def test_an_unclosed_producer_is_warned_of(broker):
    printed = end(broker.address, SEND, "-W", "always")
    assert printed.count(UNCLOSED) == 1
    assert stored(broker) == SENT


def test_records_are_stored_also_when_the_client_is_unreferenced(broker):
    assert end(broker.address, SEND + "del client, producer") == ""
    assert stored(broker) == SENT


def test_a_sent_record_is_stored_when_the_process_ends_with_an_error(broker):
    printed = end(broker.address, SEND + "raise ValueError('wrong')", exit_code=1)
    assert printed.endswith("ValueError: wrong\n")
    assert stored(broker) == SENT


@pytest.mark.parametrize("close", ["client.close()", "producer.close(); client.close()"])
def test_nothing_is_said_of_a_client_that_was_closed(broker, close):
    assert end(broker.address, SEND + close, "-W", "error") == ""
    assert stored(broker) == SENT


def test_a_child_leaves_its_parents_records_alone(broker):
    printed = end(broker.address, SEND + LEAVE_IT_TO_A_CHILD, "-W", "always")
    assert printed.count(UNCLOSED) == 1
    assert "may not be stored" not in printed
    assert stored(broker) == SENT


def test_a_child_has_its_own_records_stored(broker):
    assert end(broker.address, LEAVE_IT_TO_A_CHILD + SEND) == ""
    assert stored(broker) == SENT


def test_a_child_of_a_process_with_a_client_has_its_own_records_stored(broker):
    assert end(broker.address, SEND + "producer.flush()" + LEAVE_IT_TO_A_CHILD + SEND) == ""
    assert stored(broker) == SENT * 2


def test_a_broker_that_does_not_answer_keeps_no_process(servers):
    servers.cluster.create("orders")
    UnansweredRequests(servers, Produce)
    assert EXIT_MS_MAX <= 5_000
    short = "import flotilla.client.producer._at_exit as exits\nexits.EXIT_MS_MAX = 200\n"
    printed = end(",".join(servers.addresses), short + SEND, "-W", "always")
    assert printed.count("the process exits, and 1000 records for orders may not be stored: ") == 1
    assert printed.count(UNCLOSED) == 1


def test_records_that_failed_before_the_exit_are_logged(servers):
    servers.cluster.create("orders")
    UnansweredRequests(servers, Produce)
    printed = end(",".join(servers.addresses), FAIL)
    assert printed.startswith("records for orders failed before the process exited: ")
