"""The real disk keeps the port's promises."""

import errno
import os
from pathlib import Path

import pytest

from flotilla.storage import posix
from flotilla.storage.posix import PosixDisk
from flotilla.types.errors import DiskFullError, InvalidArgumentError, StorageFailedError


@pytest.fixture
def disk(tmp_path: Path) -> PosixDisk:
    return PosixDisk(str(tmp_path / "data"))


def test_bytes_written_are_bytes_read(disk: PosixDisk) -> None:
    disk.make_directory("a/b")
    file = disk.open("a/b/c", create=True)
    file.write(3, [b"xy", bytearray(b"z"), memoryview(b"123")])
    file.sync()
    assert file.size() == 9
    assert file.read(0, 100) == b"\0\0\0xyz123"
    assert file.read(5, 2) == b"z1"
    file.truncate(4)
    assert file.read(0, 10) == b"\0\0\0x"
    file.allocate(1000)
    assert file.size() == 1000
    assert not any(file.read(4, 996))
    file.close()
    file.close()


def test_more_buffers_than_one_call_takes(disk: PosixDisk) -> None:
    file = disk.open("many", create=True)
    buffers = [bytes([number % 251]) * (number % 5) for number in range(5000)]
    file.write(7, buffers)
    assert file.read(7, 100_000) == b"".join(buffers)


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("sizes", [[3 << 20], [1 << 20], [1, 1 << 20, 5], [700_000, 700_000, 0, 2_500_000], [1] * 2000])
def test_buffers_of_any_size_are_written_whole(disk: PosixDisk, sizes: list[int], is_synced: bool) -> None:
    file = disk.open("large", create=True)
    buffers = [os.urandom(size) for size in sizes]
    (file.write_synced if is_synced else file.write)(5, buffers)
    assert file.read(5, sum(sizes) + 1) == b"".join(buffers)


@pytest.mark.parametrize("is_synced", [False, True])
def test_a_short_write_is_continued(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch, is_synced: bool) -> None:
    file = disk.open("short", create=True)
    whole, sync = os.pwritev, os.fdatasync
    syncs: list[int] = []
    monkeypatch.setattr(posix.os, "pwritev", lambda fd, buffers, at, *_: whole(fd, [b"".join(buffers)[:5]], at))
    monkeypatch.setattr(posix.os, "fdatasync", lambda fd: syncs.append(fd) or sync(fd))
    (file.write_synced if is_synced else file.write)(2, [b"abc", b"", b"defg", b"hi"])
    assert file.read(2, 100) == b"abcdefghi"
    assert len(syncs) == is_synced, "the flag of a write counts for what it wrote only"


@pytest.mark.parametrize("flag", [os.RWF_DSYNC, 0])
def test_a_synced_write_is_one_call_with_the_flag_or_two(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    disk._synced_write_flag = flag
    file = disk.open("synced", create=True)
    write, sync = os.pwritev, os.fdatasync
    calls: list[tuple[str, int]] = []

    def noted_write(descriptor: int, buffers: list[bytes], at: int, flags: int = 0) -> int:
        calls.append(("write", flags))
        return write(descriptor, buffers, at, flags)

    monkeypatch.setattr(posix.os, "pwritev", noted_write)
    monkeypatch.setattr(posix.os, "fdatasync", lambda fd: calls.append(("sync", 0)) or sync(fd))
    file.write_synced(0, [b"abc"])
    assert file.read(0, 100) == b"abc"
    assert calls == ([("write", flag)] if flag else [("write", 0), ("sync", 0)])


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EFBIG, DiskFullError),
        (errno.EIO, StorageFailedError),
        (errno.EROFS, StorageFailedError),
    ],
)
@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "pread", "posix_fallocate"])
def test_every_failure_is_typed(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch, call: str, number: int, expected: type[Exception]
) -> None:
    file = disk.open("file", create=True)

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(posix.os, call, fail)
    work = {
        "pwritev": lambda: file.write(0, [b"x"]),
        "fdatasync": file.sync,
        "pread": lambda: file.read(0, 1),
        "posix_fallocate": lambda: file.allocate(100),
    }
    if (call, number) == ("pread", errno.EIO):
        assert work[call]() == b"", "nothing is there to be read"
        return
    with pytest.raises(expected):
        work[call]()


def test_unreadable_sectors_are_damage_and_nothing_else_is_lost(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad sector must not keep a node from running: its checksums fail, and others have what it held."""
    content = bytes(number % 251 + 1 for number in range(3 * 4096 + 100))
    file = disk.open("file", create=True)
    file.write(0, [content])
    read = os.pread

    def read_but_one(descriptor: int, length: int, offset: int) -> bytes:
        if offset < 2 * 4096 and offset + length > 4096:
            raise OSError(errno.EIO, "bad sector")
        return read(descriptor, length, offset)

    monkeypatch.setattr(posix.os, "pread", read_but_one)
    expected = content[:4096] + bytes(4096) + content[8192:]
    assert file.read(0, 1 << 20) == expected
    assert file.read(4000, 5000) == expected[4000:9000]
    assert file.read(5000, 10) == bytes(10)
    assert file.read(8192, 100) == content[8192:8292]


def test_a_file_is_extended_where_space_cannot_be_reserved(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(posix.os, "posix_fallocate", refuse)
    file = disk.open("file", create=True)
    file.allocate(4096)
    assert file.size() == 4096


def test_names(disk: PosixDisk) -> None:
    assert disk.list("nowhere") == []
    disk.make_directory("folder")
    disk.make_directory("folder")
    for name in ("b", "a"):
        disk.open(f"folder/{name}", create=True).close()
    disk.rename("folder/b", "folder/c")
    disk.sync_directory("folder")
    disk.sync_directory("")
    assert disk.list("folder") == ["a", "c"]
    with pytest.raises(StorageFailedError):
        disk.remove("folder")
    disk.remove("folder/a")
    disk.remove("folder/a")
    disk.remove("folder/c")
    disk.remove("folder")
    assert not disk.exists("folder")
    with pytest.raises(StorageFailedError):
        disk.open("absent")


def test_files_are_private(disk: PosixDisk, tmp_path: Path) -> None:
    disk.open("secret", create=True).close()
    assert (tmp_path / "data" / "secret").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_paths_stay_inside(disk: PosixDisk, path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        disk.open(path, create=True)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first = PosixDisk(str(tmp_path))
    with pytest.raises(StorageFailedError, match="in use"):
        PosixDisk(str(tmp_path))
    first.close()
    PosixDisk(str(tmp_path)).close()


def test_a_cached_read_returns_bytes_or_nothing_and_never_waits(
    disk: PosixDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open("warm", create=True)
    file.write(0, [b"0123456789"])
    assert file.read_cached(2, 3) in (b"234", None)
    assert file.read_cached(8, 3) is None, "the file ends before"

    def refuse(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    assert file.read_cached(2, 3) is None
    monkeypatch.delattr(os, "RWF_NOWAIT", raising=False)
    assert file.read_cached(2, 3) is None
    assert file.read(2, 3) == b"234"
    assert disk.open_cached("warm") is None
