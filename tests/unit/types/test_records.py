"""A record that no broker would take is refused where it is made."""

import pytest

from flotilla.types.errors import InvalidArgumentError
from flotilla.types.limits import (
    DELIVERY_COUNT_MAX,
    IDEMPOTENCY_KEY_BYTES_MAX,
    KEY_BYTES_MAX,
    PAYLOAD_BYTES_DEFAULT,
    PAYLOAD_BYTES_MAX,
    PRIORITY_MAX,
    RECORD_HEADER_BYTES_MAX,
    RECORD_HEADER_COUNT_MAX,
    TIME_MS_MAX,
)
from flotilla.types.records import CONTENT_TYPE_MAX, MEDIA_TYPES, Record, RecordLimits, check_record


def test_a_value_is_enough():
    record = Record(b"hello")
    check_record(record)
    assert record == (b"hello", None, (), 0, 0, 0, 0, 0, b"", 0)


@pytest.mark.parametrize(
    "record",
    [
        Record(b"v" * PAYLOAD_BYTES_DEFAULT),
        Record(b"", key=b"k" * KEY_BYTES_MAX),
        Record(b"", idempotency_key=b"i" * IDEMPOTENCY_KEY_BYTES_MAX),
        Record(b"", headers=(("n", b"v"),) * RECORD_HEADER_COUNT_MAX),
        Record(b"", headers=(("é", b"v" * (RECORD_HEADER_BYTES_MAX - 2)),)),
        Record(b"", priority=PRIORITY_MAX, content_type=CONTENT_TYPE_MAX, max_deliveries=DELIVERY_COUNT_MAX),
        Record(b"", timestamp_ms=TIME_MS_MAX, deliver_at_ms=TIME_MS_MAX, ttl_ms=TIME_MS_MAX),
    ],
)
def test_limits_are_inclusive(record):
    check_record(record)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Record(b"v" * (PAYLOAD_BYTES_DEFAULT + 1)), "a payload of"),
        (Record("text"), "a payload is bytes, not str"),
        (Record(bytearray(b"v")), "a payload is bytes, not bytearray"),
        (Record(b"", key="k"), "a key is bytes or None, not str"),
        (Record(b"", key=b"k" * (KEY_BYTES_MAX + 1)), "key bytes"),
        (Record(b"", idempotency_key=None), "an idempotency key is bytes"),
        (Record(b"", idempotency_key=b"i" * (IDEMPOTENCY_KEY_BYTES_MAX + 1)), "idempotency key bytes"),
        (Record(b"", headers=(("n", b"v"),) * (RECORD_HEADER_COUNT_MAX + 1)), "headers: 65"),
        (Record(b"", headers=(("é", b"v" * (RECORD_HEADER_BYTES_MAX - 1)),)), "header bytes: 65537"),
        (Record(b"", headers=((b"n", b"v"),)), "name of a header is str, not bytes"),
        (Record(b"", headers=(("n", "v"),)), "value of a header is bytes, not str"),
        (Record(b"", headers=(("\ud800", b""),)), "not Unicode text"),
        (Record(b"", priority=PRIORITY_MAX + 1), "priority: 8 is not within 0 to 7"),
        (Record(b"", priority=-1), "priority: -1"),
        (Record(b"", priority=1.0), "priority: 1.0 is no integer"),
        (Record(b"", content_type=256), "content_type: 256"),
        (Record(b"", max_deliveries=DELIVERY_COUNT_MAX + 1), "max_deliveries"),
        (Record(b"", timestamp_ms=-1), "timestamp_ms: -1"),
        (Record(b"", deliver_at_ms=TIME_MS_MAX + 1), "deliver_at_ms"),
        (Record(b"", ttl_ms=-1), "ttl_ms: -1"),
    ],
)
def test_each_fault_is_named(record, reason):
    with pytest.raises(InvalidArgumentError, match=reason):
        check_record(record)


def test_a_topic_may_allow_more():
    check_record(Record(b"v" * PAYLOAD_BYTES_MAX), RecordLimits(payload_bytes_max=PAYLOAD_BYTES_MAX))


def test_media_types_are_distinct():
    assert len(set(MEDIA_TYPES.values())) == len(MEDIA_TYPES)
    assert all(0 <= code < 128 for code in MEDIA_TYPES)
