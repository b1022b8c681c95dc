"""Events come out whole, on one line, whatever they carry."""

import io
import json
import logging
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flotilla.runtime.observability.logs import (
    ITEMS_MAX,
    TEXT_CHARS_MAX,
    ConsoleFormatter,
    JsonFormatter,
    configure_logs,
    get_logger,
    plain,
    remove_logs,
)


class Terminal(io.TextIOWrapper):
    def __init__(self, encoding="utf-8"):
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    def isatty(self):
        return True

    def text(self):
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    remove_logs()


@pytest.fixture
def stream():
    return io.StringIO()


def lines(stream):
    return [json.loads(line) for line in stream.getvalue().splitlines()]


log = get_logger("test")


def test_json_lines(stream):
    configure_logs(level="info", format="auto", stream=stream)
    log.info("leader elected", group=3, term=7)
    [line] = lines(stream)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {"level": "info", "logger": "flotilla.test", "event": "leader elected", "group": 3, "term": 7}


def test_console_on_a_terminal():
    terminal = Terminal()
    configure_logs(level="info", format="auto", stream=terminal)
    log.warning("disk is slow", path="a b", took_ms=12, tags=["x y"])
    assert re.fullmatch(
        r"\x1b\[2m\d\d:\d\d:\d\d\.\d{3}\x1b\[0m \x1b\[33mwarning\x1b\[0m disk is slow "
        r"\x1b\[2mpath=\x1b\[0m'a b' \x1b\[2mtook_ms=\x1b\[0m12 \x1b\[2mtags=\x1b\[0m\[\"x y\"\]\n",
        terminal.text(),
    )


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    terminal = Terminal()
    configure_logs(level="info", format="auto", stream=terminal)
    log.info("started", node=1)
    assert re.fullmatch(r"[\d:.]+ info    started node=1\n", terminal.text())


def test_the_format_can_be_forced(stream):
    configure_logs(level="info", format="console", stream=stream)
    log.info("started", node=1)
    assert stream.getvalue().endswith("info    started node=1\n")
    terminal = Terminal()
    configure_logs(level="info", format="json", stream=terminal)
    log.info("started", node=1)
    assert json.loads(terminal.text())["node"] == 1


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_levels(stream, level, events):
    configure_logs(level=level, format="json", stream=stream)
    for name in ("debug", "info", "warning", "error"):
        getattr(log, name)(name)
    assert [line["event"] for line in lines(stream)] == events
    assert [line["level"] for line in lines(stream)] == events
    assert log.is_enabled(logging.DEBUG) == ("debug" in events)


def test_bound_fields_go_with_every_event(stream):
    configure_logs(level="info", format="json", stream=stream)
    bound = log.bind(node=1).bind(group=2)
    bound.info("one")
    bound.info("two", node=9)
    assert [(line["node"], line["group"]) for line in lines(stream)] == [(1, 2), (9, 2)]


def test_fields_may_have_any_name(stream):
    configure_logs(level="info", format="json", stream=stream)
    log.info("event", self=1, event=2, level=3, msg=4, name=5, ts=6, args=7, exc_info=8)
    [line] = lines(stream)
    assert (line["event"], line["level"], line["event_"], line["level_"], line["ts_"]) == ("event", "info", 2, 3, 6)
    assert [line[name] for name in ("self", "msg", "name", "args", "exc_info")] == [1, 4, 5, 7, 8]


def test_an_event_is_not_a_format(stream):
    configure_logs(level="info", format="json", stream=stream)
    log.info("100 %s %d", x="%s")
    assert lines(stream)[0]["event"] == "100 %s %d"


def test_an_exception_is_fields(stream):
    configure_logs(level="info", format="json", stream=stream)
    try:
        raise ValueError("boom\nbang")
    except ValueError as error:
        log.warning("caught", error=error)
        log.exception("failed", group=1)
    caught, failed = lines(stream)
    assert caught["error"] == failed["error"] == "ValueError: boom\nbang"
    assert "traceback" not in caught
    assert failed["level"] == "error"
    assert failed["traceback"].startswith("Traceback (most recent call last)")
    assert failed["group"] == 1


def test_exception_without_one_is_an_error(stream):
    configure_logs(level="info", format="json", stream=stream)
    log.exception("failed")
    assert lines(stream)[0]["level"] == "error"
    assert "traceback" not in lines(stream)[0]


def test_on_the_console_a_traceback_follows(stream):
    configure_logs(level="info", format="console", stream=stream)
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        log.exception("failed")
    first, *trace = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("    ") for line in trace)
    assert "\x1b" not in stream.getvalue()


class Broken:
    def __str__(self):
        raise RuntimeError("no")


VALUES = [
    (None, None),
    (True, True),
    (2**64, "0x10000000000000000"),
    (1 << 100_000, None),
    (float("nan"), "nan"),
    (float("-inf"), "-inf"),
    (1.5, 1.5),
    (b"key\xff", "key\\xff"),
    (memoryview(b"abc"), "abc"),
    (ValueError(), "ValueError"),
    ((1, (2, [b"x"])), [1, [2, ["x"]]]),
    ({1: {"a": b"b"}}, {"1": {"a": "b"}}),
    (Broken(), "<Broken that cannot be shown: RuntimeError>"),
    ([Broken()], ["<Broken that cannot be shown: RuntimeError>"]),
    ({Broken(): 1}, {"<Broken that cannot be shown: RuntimeError>": 1}),
    (logging.INFO, 20),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=range(len(VALUES)))
def test_any_value_can_be_shown(value, expected):
    shown = plain(value)
    json.dumps(shown, allow_nan=False)
    if expected is not None:
        assert shown == expected


def test_large_values_are_cut():
    assert len(plain("x" * 10**6)) < TEXT_CHARS_MAX + 50
    assert len(plain(b"x" * 10**6)) < TEXT_CHARS_MAX + 50
    assert len(plain(list(range(1000)))) == ITEMS_MAX
    assert len(plain(dict.fromkeys(range(1000)))) == ITEMS_MAX
    assert plain([[[[[1]]]]]) == [[[["[1]"]]]]
    loop: list[object] = []
    loop.append(loop)
    json.dumps(plain(loop))


scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.binary(max_size=9))
anything = scalars | st.lists(scalars, max_size=3) | st.dictionaries(st.text(max_size=3), scalars, max_size=3)


@given(st.text(max_size=20), st.dictionaries(st.text(min_size=1, max_size=5), anything, max_size=3))
def test_one_line_whatever_the_values_hold(event, fields):
    record = logging.makeLogRecord({"msg": event, "levelno": logging.INFO, "levelname": "INFO", "fields": fields})
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert "\n" not in line
    json.loads(line, parse_constant=pytest.fail)
    for is_unicode in (False, True):
        shown = ConsoleFormatter(has_colours=False, is_unicode=is_unicode).format(
            logging.makeLogRecord({**vars(record), "fields": {"field": list(fields.values()), "text": event}})
        )
        assert shown.isprintable()
        assert is_unicode or shown.isascii()


def test_a_terminal_without_unicode_gets_ascii():
    terminal = Terminal("ascii")
    configure_logs(level="info", format="console", stream=terminal)
    log.info("größe", name="ü")
    assert "'gr\\xf6\\xdfe'" in terminal.text()
    assert "'\\xfc'" in terminal.text()


def test_warnings_of_other_libraries_are_written(stream):
    configure_logs(level="debug", format="json", stream=stream)
    other = logging.getLogger("other.library")
    other.info("chatter")
    other.warning("it took %d ms", 5)
    assert [line["event"] for line in lines(stream)] == ["it took 5 ms"]


def test_arguments_that_do_not_fit_their_text_are_ignored():
    record = logging.makeLogRecord({"msg": "%d", "args": ("not a number",)})
    assert json.loads(JsonFormatter().format(record))["event"] == "%d"
    assert "%d" in ConsoleFormatter(has_colours=False, is_unicode=True).format(record)


def test_configuring_twice_writes_once(stream):
    first = io.StringIO()
    configure_logs(level="info", format="json", stream=first)
    configure_logs(level="info", format="json", stream=stream)
    log.info("once")
    assert first.getvalue() == ""
    assert len(lines(stream)) == 1


def test_nothing_happens_on_import():
    code = (
        "import logging; from flotilla.runtime.observability.logs import get_logger, remove_logs; "
        "get_logger('x').info('quiet'); "
        "assert logging.getLogger().handlers == [] and logging.getLogger('flotilla').level == logging.NOTSET"
    )
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert done.stdout + done.stderr == ""


def test_other_handlers_know_the_caller(stream):
    configure_logs(level="info", format="json", stream=stream)
    seen = []

    class Seen(logging.Handler):
        def emit(self, record):
            seen.append(record.funcName)

    handler = Seen()
    logging.getLogger().addHandler(handler)
    try:
        log.info("event")
        log.exception("event")
    finally:
        logging.getLogger().removeHandler(handler)
    assert seen == ["test_other_handlers_know_the_caller"] * 2
