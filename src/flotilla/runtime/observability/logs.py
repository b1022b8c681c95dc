"""Structured logs: events with fields, over the standard library's logging.

    log = get_logger("raft")
    log.info("leader elected", group=3, term=7)

An event is a constant text; variable parts go into fields, so that lines can be counted and searched. On a
terminal a line is readable text, elsewhere it is one JSON object. Nothing happens on import; the owner of
the process calls `configure_logs` once. Logging never raises because of a value, writes one line per event
for any values (on a terminal a traceback follows), and costs a look-up when the level is off.

The replicated core does not log: its events are outputs, and its caller logs them.
"""

import json
import logging
import os
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, TextIO

#: Longer texts, and deeper and longer collections, are cut.
TEXT_CHARS_MAX = 8192
DEPTH_MAX = 4
ITEMS_MAX = 64

_ROOT = "flotilla"
_RESERVED = ("ts", "level", "logger", "event")
_COLOURS = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31;1m",
}
_DIM = "\x1b[2m"
_PLAIN = "\x1b[0m"


class Log:
    """A named source of events. Its bound fields are part of every event."""

    __slots__ = ("_bound", "_logger", "is_enabled")

    def __init__(self, logger: logging.Logger, bound: Mapping[str, object]) -> None:
        self._logger = logger
        self._bound = bound
        #: Whether events of a level are written; for callers whose fields are expensive to gather.
        self.is_enabled = logger.isEnabledFor

    def bind(self, /, **fields: object) -> "Log":
        """The same source with more fields."""
        return Log(self._logger, {**self._bound, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        if self.is_enabled(logging.DEBUG):
            self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if self.is_enabled(logging.INFO):
            self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        if self.is_enabled(logging.WARNING):
            self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        if self.is_enabled(logging.ERROR):
            self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the current exception and its traceback."""
        if self.is_enabled(logging.ERROR):
            self._write(logging.ERROR, event, fields, has_exception=True)

    def _write(self, level: int, event: str, fields: dict[str, object], has_exception: bool = False) -> None:
        extra = {"fields": {**self._bound, **fields}}
        # The caller is two frames up, for handlers that show it.
        self._logger.log(level, event, extra=extra, exc_info=has_exception, stacklevel=3)


def get_logger(name: str) -> Log:
    """The source `flotilla.<name>`."""
    return Log(logging.getLogger(f"{_ROOT}.{name}"), {})


class _Handler(logging.StreamHandler[TextIO]):
    """A class of our own, so that a second `configure_logs` finds and replaces the handler."""


def configure_logs(*, level: str, format: str, stream: TextIO) -> None:  # noqa: A002
    """Writes events from `level` on to `stream`, and warnings of other libraries with them.

    Replaces the handler of an earlier call. `format` is auto, console or json, as in the settings.
    """
    remove_logs()
    is_terminal = stream.isatty()
    handler = _Handler(stream)
    if format == "console" or (format == "auto" and is_terminal):
        has_colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        is_unicode = (stream.encoding or "").lower().replace("-", "") == "utf8"
        handler.setFormatter(ConsoleFormatter(has_colours=has_colours, is_unicode=is_unicode))
    else:
        assert format in ("auto", "json")
        handler.setFormatter(JsonFormatter())
    logging.getLogger().addHandler(handler)
    set_level(level)


def set_level(level: str) -> None:
    """Events from this level on are written from now on."""
    logging.getLogger(_ROOT).setLevel(level.upper())


def remove_logs() -> None:
    """Undoes `configure_logs`."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _Handler):
            root.removeHandler(handler)
            handler.close()
    logging.getLogger(_ROOT).setLevel(logging.NOTSET)


class JsonFormatter(logging.Formatter):
    """One object per line: ts, level, logger, event, then the fields. ASCII only."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": _moment(record).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _cut(_event(record)),
        }
        for name, value in _fields(record).items():
            line[f"{name}_" if name in _RESERVED else name] = plain(value)
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error", plain(record.exc_info[1]))
            line["traceback"] = _cut(_traceback(record.exc_info[1]))
        return json.dumps(line, separators=(",", ":"))


class ConsoleFormatter(logging.Formatter):
    """Time, level, event, key=value; values that could harm a terminal or deceive a reader are quoted."""

    def __init__(self, *, has_colours: bool, is_unicode: bool) -> None:
        super().__init__()
        self._has_colours = has_colours
        self._quote: Callable[[str], str] = repr if is_unicode else ascii
        self._is_unicode = is_unicode

    def format(self, record: logging.LogRecord) -> str:
        moment = _moment(record).astimezone().strftime("%H:%M:%S.%f")[:-3]
        level = self._paint(_COLOURS.get(record.levelno, ""), f"{record.levelname.lower():<7}")
        event = _cut(_event(record))
        if not event.isprintable() or not (self._is_unicode or event.isascii()):
            event = self._quote(event)
        parts = [self._paint(_DIM, moment), level, event]
        parts += [f"{self._paint(_DIM, name + '=')}{self._show(value)}" for name, value in _fields(record).items()]
        if record.exc_info and record.exc_info[1] is not None:
            trace = _cut(_traceback(record.exc_info[1])).splitlines()
            return "\n".join([" ".join(parts), *(f"    {self._safe(line)}" for line in trace)])
        return " ".join(parts)

    def _show(self, value: object) -> str:
        value = plain(value)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        is_clear = text and not (isinstance(value, str) and any(mark in text for mark in " ='\""))
        if is_clear and text.isprintable() and (self._is_unicode or text.isascii()):
            return text
        return self._quote(text)

    def _safe(self, line: str) -> str:
        return line if line.isprintable() and (self._is_unicode or line.isascii()) else self._quote(line)

    def _paint(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._has_colours else text


def plain(value: object, depth: int = 0) -> Any:
    """Any value as JSON values: bounded, and without raising."""
    try:
        return _plain(value, depth)
    except Exception as error:
        # A __str__ or an iterator that fails must not lose the event.
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _plain(value: object, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Above 64 bits many readers of JSON lose digits.
        return int(value) if -(2**63) <= value < 2**64 else _cut(hex(value))
    if isinstance(value, float):
        return float(value) if isfinite(value) else str(value)
    if isinstance(value, str):
        return _cut(str(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return _cut(bytes(value[: TEXT_CHARS_MAX + 1]).decode("utf-8", "backslashreplace"))
    if isinstance(value, BaseException):
        return _cut(f"{type(value).__name__}: {value}".rstrip(": "))
    if isinstance(value, Mapping | list | tuple) and depth < DEPTH_MAX:
        return _collection(value, depth)
    return _cut(str(value))


def _collection(value: "Mapping[object, object] | list[object] | tuple[object, ...]", depth: int) -> Any:
    if isinstance(value, Mapping):
        items = list(value.items())[:ITEMS_MAX]
        return {str(plain(name, DEPTH_MAX)): plain(item, depth + 1) for name, item in items}
    return [plain(item, depth + 1) for item in value[:ITEMS_MAX]]


def _event(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # Other libraries pass arguments that do not fit their text.
        return str(plain(record.msg))


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields: dict[str, object] = getattr(record, "fields", {})
    return fields


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}... ({len(text)} characters)"
