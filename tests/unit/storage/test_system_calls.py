"""Durable writes on file systems and operating systems that lack what Linux has, emulated by taking it away."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from flotilla.storage.posix import PosixDisk
from flotilla.types.errors import StorageFailedError


def refuse_flag(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    whole = os.pwritev

    def pwritev(descriptor: int, buffers: list[bytes], offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(number, os.strerror(number))
        return whole(descriptor, buffers, offset)

    monkeypatch.setattr(os, "pwritev", pwritev)


def assert_works(folder: Path, method: str) -> None:
    disk = PosixDisk(str(folder))
    try:
        assert disk.sync_method == method
        file = disk.open("file", create=True)
        file.allocate(10_000)
        file.write_synced(5, [b"abc", b"", b"def"])
        file.write(20, [b"ghi"])
        file.sync()
        assert file.size() == 10_000
        assert file.read(5, 6) == b"abcdef"
        assert file.read(20, 3) == b"ghi"
        file.close()
    finally:
        disk.close()


def test_linux_writes_and_syncs_in_one_call(tmp_path: Path) -> None:
    assert_works(tmp_path, "RWF_DSYNC")


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_a_file_system_that_refuses_the_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    refuse_flag(monkeypatch, number)
    assert_works(tmp_path, "fdatasync")


def test_a_disk_that_fails_the_first_write_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_flag(monkeypatch, errno.EIO)
    with pytest.raises(StorageFailedError, match="Input/output error"):
        PosixDisk(str(tmp_path))


def test_a_full_disk_can_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_flag(monkeypatch, errno.ENOSPC)
    disk = PosixDisk(str(tmp_path))
    assert disk.sync_method == "RWF_DSYNC"
    disk.close()


def test_a_system_without_fdatasync_fallocate_and_vectored_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RWF_DSYNC", "fdatasync", "posix_fallocate", "pwritev"):
        monkeypatch.delattr(os, name)
    assert_works(tmp_path, "fsync")


@pytest.mark.parametrize("is_refused", [False, True])
def test_macos_asks_the_disk_to_empty_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    for name in ("RWF_DSYNC", "fdatasync", "posix_fallocate", "pwritev"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    asked: list[int] = []

    def control(descriptor: int, command: int) -> int:
        asked.append(command)
        if is_refused:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        return 0

    monkeypatch.setattr(fcntl, "fcntl", control)
    assert_works(tmp_path, "F_FULLFSYNC")
    assert asked == [51, 51], "once for the synced write, once for the sync"
