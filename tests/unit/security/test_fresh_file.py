"""Files that are read again beside the loop."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flotilla.security import fresh_file
from flotilla.security.fresh_file import FreshFile

LIMIT_S = 30


class Text:
    """A source that reads a file, changed or not, and counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forced: list[bool] = []
        self.threads: set[int] = set()
        self.taken: list[str] = []

    def read(self, is_forced: bool) -> Callable[[], None] | None:
        self.forced.append(is_forced)
        text = self.path.read_text()
        self.threads.add(threading.get_ident())
        return lambda: self.take(text)

    def take(self, text: str) -> None:
        assert threading.get_ident() not in self.threads
        self.taken.append(text)


@contextmanager
def closed(file: FreshFile) -> Iterator[FreshFile]:
    try:
        yield file
    finally:
        file.close()


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():
            await asyncio.sleep(0.001)


def test_a_disk_that_does_not_return_the_file_holds_up_nothing(tmp_path: Path) -> None:
    path = tmp_path / "hangs"
    os.mkfifo(path)

    async def main() -> None:
        source = Text(path)
        with closed(FreshFile(source.read)) as file:
            file.look()
            await eventually(lambda: source.forced == [False])
            # The loop turns, and further looks add nothing but one that is forced.
            for is_forced in (False, True, True):
                file.look(is_forced=is_forced)
            assert source.taken == []
            for text in ("one", "two"):
                # Returns when the reader is there.
                await asyncio.to_thread(path.write_text, text)
                await eventually(lambda expected=text: source.taken[-1:] == [expected])  # type: ignore[misc]
            assert source.taken == ["one", "two"]
            assert source.forced == [False, True]

    asyncio.run(main())


def test_it_looks_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_file, "LOOK_MS", 1)
    path = tmp_path / "file"
    path.write_text("text")

    async def main() -> None:
        source = Text(path)
        with closed(FreshFile(source.read)) as file:
            file.start()
            await eventually(lambda: len(source.taken) > 2)

    asyncio.run(main())


def test_a_failure_is_reported_and_not_the_last_look(tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        reported: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context.get("exception")))
        source = Text(path)
        with closed(FreshFile(source.read)) as file:
            file.look()
            await eventually(lambda: bool(reported))
            path.write_text("there")
            file.look()
            await eventually(lambda: source.taken == ["there"])
        assert isinstance(reported[0], FileNotFoundError)

    asyncio.run(main())
