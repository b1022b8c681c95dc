"""The fields read from the headers of a dead letter, also when no broker wrote them."""

import pytest

from flotilla.client.admin.dead_letter import read_letter
from flotilla.client.reader.message import Message


def with_header(name: str, value: bytes) -> Message:
    return Message("dlq.g.t", 0, 7, b"payload", headers=(("flotilla-dead-" + name, value),), timestamp_ms=5)


def test_settings_of_the_message_itself() -> None:
    assert read_letter(with_header("max-deliveries", b"9")).max_deliveries == 9
    assert read_letter(with_header("ttl-ms", b"60000")).ttl_ms == 60_000
    assert read_letter(with_header("max-deliveries", b"9")).headers == ()


@pytest.mark.parametrize("value", [b"", b"-1", b"many", b"65536", b"9" * 5_000])
def test_a_bound_that_no_broker_would_take_is_none(value: bytes) -> None:
    assert read_letter(with_header("max-deliveries", value)).max_deliveries == 0


@pytest.mark.parametrize("value", [b"x", b"9" * 16, b"9" * 5_000])
def test_a_time_to_live_that_no_broker_would_take_is_none(value: bytes) -> None:
    assert read_letter(with_header("ttl-ms", value)).ttl_ms == 0
    assert read_letter(with_header("attempts", b"9" * 5_000)).attempts == 0
