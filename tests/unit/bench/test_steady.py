"""A steady producer knows what was acknowledged, and the ledger finds what is missing."""

import threading
import time

import pytest

from bench.peers.steady import SteadyProducer, failed_over, missing_and_doubled


class Store:
    """Takes messages until it is killed, and again after a few refusals."""

    def __init__(self, *, forgets: int = 0) -> None:
        self.payloads: list[bytes] = []
        self._forgets = forgets
        self._refusals = 0
        self._lock = threading.Lock()

    def send(self, payload: bytes) -> None:
        with self._lock:
            if self._refusals:
                self._refusals -= 1
                raise ConnectionError("no leader")
            self.payloads.append(payload)

    def kill(self, node: str) -> None:
        assert node == "first"
        with self._lock:
            self._refusals = 3
            del self.payloads[: self._forgets]


@pytest.mark.parametrize("forgets", [0, 2])
def test_an_acknowledged_message_that_is_gone_is_counted(forgets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.peers.steady._STEADY_S", 0.01)
    store = Store(forgets=forgets)
    found = failed_over(store.send, lambda: "first", store.kill, lambda: list(store.payloads))
    assert found.lost == forgets
    assert found.doubled == 0
    assert found.acknowledged == len(store.payloads) + forgets
    assert found.waited_s > 0


def test_errors_are_counted_and_not_acknowledged() -> None:
    store = Store()
    store.kill("first")
    with SteadyProducer(store.send) as producer:
        producer.wait_acknowledged_after(time.monotonic())
    assert producer.errors == 3
    assert producer.numbers[0] == 3


def test_the_longest_pause_reaches_to_the_ends_of_the_stretch() -> None:
    producer = SteadyProducer(lambda payload: None)
    producer.moments = [(0.0, 1.0), (1.0, 2.0), (2.0, 5.0)]
    assert producer.longest_pause(0.5, 5.5) == 3.0
    assert producer.longest_pause(5.5, 9.5) == 4.0


def test_a_ledger_distinguishes_lost_from_doubled() -> None:
    assert missing_and_doubled([0, 1, 2], [b"%03d" % 1, b"%03d" % 2, b"%03d" % 2, b"%03d" % 7]) == (1, 1)
