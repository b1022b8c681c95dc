"""A start that waits for the disk says for which file."""

import logging
import threading
from typing import Any

import pytest

from flotilla.runtime.start_watch import StartWatch


class Lines(logging.Handler):
    """Written by another thread, so a test waits for them."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[dict[str, Any]] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.fields.append(record.fields)  # type: ignore[attr-defined]
        self.came.set()


@pytest.fixture
def lines() -> Any:
    lines = Lines()
    logger = logging.getLogger("flotilla.runtime")
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


def test_a_file_that_takes_long_is_named_once(lines: Lines) -> None:
    asked = threading.Semaphore(0)

    def opened() -> str:
        asked.release()
        return "groups/7/a.snap"

    with StartWatch(opened, patience_s=0.001):
        assert lines.came.wait(10)
        for _ in range(8):
            assert asked.acquire(timeout=10)
    assert lines.fields == [{"path": "groups/7/a.snap"}]


def test_a_start_that_goes_on_says_nothing(lines: Lines) -> None:
    paths = iter(range(1_000_000))
    enough = threading.Event()

    def opened() -> str:
        number = next(paths)
        if number == 5:
            enough.set()
        return f"journal/{number}"

    with StartWatch(opened, patience_s=0.001):
        assert enough.wait(10)
    assert lines.fields == []
