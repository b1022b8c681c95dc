"""One message in each of the formats."""

import json
from datetime import UTC, datetime

import pytest

from flotilla.cli.terminal.message_formats import Format, formatter, moment, with_short_times
from flotilla.client.reader.message import Message

PLAIN = Message("orders", 1, 42, b"hello", timestamp_ms=1_700_000_000_123)
RICH = Message("orders", 0, 7, b"\xff\x00", b"k1", (("trace", b"abc"), ("raw", b"\xfe")), 5, 3)


@pytest.mark.parametrize(
    ("form", "message", "is_terminal", "expected"),
    [
        (Format.TEXT, PLAIN, False, b"hello\n"),
        (Format.TEXT, RICH, False, b"\xff\x00\n"),
        (Format.TEXT, RICH, True, b"\\xff\\x00\n"),
        (Format.LONG, PLAIN, False, b"1:42 2023-11-14T22:13:20.123Z  hello\n"),
        (Format.LONG, RICH, True, b"0:7 1970-01-01T00:00:00.005Z key=k1 trace=abc raw=\\xfe  \\xff\\x00\n"),
        (Format.HEX, RICH, False, b"0:7 ff00\n"),
        (Format.RAW, RICH, True, b"\xff\x00"),
    ],
)
def test_bytes_of_a_message(form, message, is_terminal, expected):
    assert formatter(form, is_terminal=is_terminal)(message) == expected


def test_json_says_text_as_text():
    line = formatter(Format.JSON, is_terminal=False)(PLAIN)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 1,
        "offset": 42,
        "timestamp_ms": 1_700_000_000_123,
        "payload": "hello",
    }


def test_json_says_bytes_as_base64_and_keeps_every_header():
    assert json.loads(formatter(Format.JSON, is_terminal=False)(RICH)) == {
        "topic": "orders",
        "partition": 0,
        "offset": 7,
        "timestamp_ms": 5,
        "key": "k1",
        "headers": [{"name": "trace", "value": "abc"}, {"name": "raw", "value_base64": "/g=="}],
        "priority": 3,
        "payload_base64": "/wA=",
    }


def test_times_of_an_explanation_are_short_and_local():
    today = datetime.now().astimezone().replace(microsecond=123_000)
    text = f"{moment(int(today.timestamp() * 1000))} failed; not again before 2001-02-03T12:00:00.000Z"
    shown = with_short_times(text)
    local = datetime(2001, 2, 3, 12, tzinfo=UTC).astimezone()
    assert shown == f"{today:%H:%M:%S}.123 failed; not again before {local:%Y-%m-%d %H:%M:%S}"
