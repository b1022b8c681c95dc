"""The formats in which messages are printed.

    text   the payload as a line of text
    long   the same after partition, offset, time, key and headers
    json   one object per line; bytes that are no UTF-8 text stand under `..._base64`
    hex    partition:offset and the payload in hexadecimal
    raw    the payload and nothing else, no separator either

On a terminal, control characters are escaped.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from flotilla.cli.terminal.output import escaped
from flotilla.types.records import Headers

if TYPE_CHECKING:
    from flotilla.client.queue.sync import QueueMessage
    from flotilla.client.reader.message import Message

Printable: TypeAlias = "Message | QueueMessage"

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


class Format(StrEnum):
    TEXT = "text"
    LONG = "long"
    JSON = "json"
    HEX = "hex"
    RAW = "raw"


def formatter(chosen: Format, *, is_terminal: bool) -> Callable[[Printable], bytes]:
    """Returns a function that formats a message, its end of line included."""
    if chosen is Format.TEXT:
        return lambda message: _text(message.payload, is_terminal) + b"\n"
    if chosen is Format.LONG:
        return lambda message: _long(message, is_terminal) + b"\n"
    if chosen is Format.JSON:
        return lambda message: json.dumps(as_plain(message), ensure_ascii=False).encode() + b"\n"
    if chosen is Format.HEX:
        return lambda message: f"{message.partition}:{message.offset} {message.payload.hex()}\n".encode()
    return lambda message: message.payload


def _text(payload: bytes, is_terminal: bool) -> bytes:
    return escaped(payload.decode("utf-8", "backslashreplace")).encode() if is_terminal else payload


def _long(message: Printable, is_terminal: bool) -> bytes:
    parts = [f"{message.partition}:{message.offset}", moment(message.timestamp_ms)]
    if message.key is not None:
        parts.append(f"key={_word(message.key)}")
    parts += [f"{escaped(name)}={_word(value)}" for name, value in message.headers]
    return " ".join(parts).encode() + b"  " + _text(message.payload, is_terminal)


def _word(value: bytes) -> str:
    return escaped(value.decode("utf-8", "backslashreplace"))


def moment(time_ms: int) -> str:
    """A time in the form that `--from` reads."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def with_short_times(text: str) -> str:
    """The text with its times of `moment` in local form, without the date if that is today."""
    return _MOMENT.sub(lambda found: _short(datetime.fromisoformat(found[0]).astimezone()), text)


def _short(time: datetime) -> str:
    is_today = time.date() == datetime.now().astimezone().date()
    return f"{time:%H:%M:%S}.{time.microsecond // 1000:03}" if is_today else f"{time:%Y-%m-%d %H:%M:%S}"


def as_plain(message: Printable) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
    }
    if message.priority:
        plain["priority"] = message.priority
    if message.content_type:
        plain["content_type"] = message.content_type
    return plain | plain_content(message.payload, message.key, message.headers)


def plain_content(payload: bytes, key: bytes | None, headers: Headers) -> dict[str, Any]:
    """Key, headers and payload for JSON."""
    plain: dict[str, Any] = {}
    if key is not None:
        put_bytes(plain, "key", key)
    if headers:
        plain["headers"] = [put_bytes({"name": name}, "value", value) for name, value in headers]
    return put_bytes(plain, "payload", payload)


def put_bytes(plain: dict[str, Any], name: str, value: bytes) -> dict[str, Any]:
    """Adds bytes for JSON: as text, or in base64 under another name. Returns `plain`."""
    try:
        plain[name] = value.decode()
    except UnicodeDecodeError:
        plain[f"{name}_base64"] = b64encode(value).decode()
    return plain
