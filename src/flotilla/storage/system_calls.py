"""System calls that differ between operating systems and file systems: reads, vectored writes, syncs, reserved space.

    Linux                                one write that is durable when it returns (RWF_DSYNC)
    a file system that refuses the flag  write, then fdatasync: FUSE, some network disks, gVisor
    macOS                                write, then F_FULLFSYNC: fsync there stops at the disk's own cache
    others                               write, then fsync

A read that must not wait for the disk needs RWF_NOWAIT (Linux). Where that is refused, every read may wait.

Raises OSError like the calls themselves.
"""

import errno
import fcntl
import os
from collections.abc import Sequence

from flotilla.storage.ports import Buffer

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_UNSUPPORTED = frozenset((errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS, errno.ENOTTY))


def find_synced_write_flag(descriptor: int) -> int:
    """The flag of a durable write on this file system; 0: it has none. Writes one byte at the start of the file."""
    flag: int = getattr(os, "RWF_DSYNC", 0)
    if not flag or not hasattr(os, "pwritev"):
        return 0
    try:
        os.pwritev(descriptor, [b"\0"], 0, flag)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return 0
        if error.errno not in _FULL:
            raise
    # A full disk has accepted the flag before it found no space: a node must start on a full disk.
    return flag


def sync_method(synced_write_flag: int) -> str:
    """How writes become durable, as a text for operators."""
    if synced_write_flag:
        return "RWF_DSYNC"
    if hasattr(fcntl, "F_FULLFSYNC"):
        return "F_FULLFSYNC"
    return "fdatasync" if hasattr(os, "fdatasync") else "fsync"


def read_without_waiting(descriptor: int, into: memoryview, offset: int) -> bool:
    """Fills `into` from the page cache; False: some bytes are not there, or the system cannot tell."""
    flag: int = getattr(os, "RWF_NOWAIT", 0)
    if not flag or not hasattr(os, "preadv"):
        return False
    try:
        return os.preadv(descriptor, (into,), offset, flag) == len(into)
    except OSError:
        # Not in the cache, or refused by the file system. A read that may wait reports any other error.
        return False


def drop_pages(descriptor: int, offset: int, length: int) -> None:
    """Drops clean pages from the page cache, where the system can."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_DONTNEED)


def write_vector(descriptor: int, buffers: Sequence[Buffer], offset: int, flags: int = 0) -> int:
    """Writes the buffers one after the other; how many bytes were written."""
    if flags:
        return os.pwritev(descriptor, buffers, offset, flags)
    if hasattr(os, "pwritev"):
        return os.pwritev(descriptor, buffers, offset)
    return os.pwrite(descriptor, b"".join(buffers), offset)


def sync_data(descriptor: int) -> None:
    """Returns when the file's bytes, and its size, are durable."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def reserve(descriptor: int, size: int) -> None:
    """Extends the file to this size, with its space reserved where the file system can."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
            return
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    os.ftruncate(descriptor, size)
