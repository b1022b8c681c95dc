"""A paced workload counts every message once, from the moment it was due."""

from queue import Empty, SimpleQueue

import pytest

from bench.peers.pacing import paced, sent_at, stamped


def test_a_payload_has_its_size_and_its_time() -> None:
    payload = stamped(12.5, 100)
    assert len(payload) == 100
    assert sent_at(payload) == 12.5


def test_every_message_has_a_duration() -> None:
    queue: SimpleQueue[bytes] = SimpleQueue()

    def receive() -> list[bytes]:
        try:
            return [queue.get(timeout=0.1)]
        except Empty:
            return []

    def send(payloads: list[bytes]) -> None:
        for payload in payloads:
            queue.put(payload)

    durations = paced(100, 10_000, 50, send, receive)
    assert len(durations) == 50
    assert min(durations) >= 0


def test_a_reader_that_fails_is_reported() -> None:
    def receive() -> list[bytes]:
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        paced(100, 10_000, 5, lambda payloads: None, receive)
