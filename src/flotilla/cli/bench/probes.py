"""Probes of the bare machine: a synced append, a round trip and a copy over loopback.

A benchmark shows each figure beside a probe of the same run, so that a slow disk or a busy machine is not taken for a
slow product.
"""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter

from flotilla.storage.options import StoreOptions
from flotilla.storage.posix import PosixDisk
from flotilla.storage.system_calls import sync_data

_LOOPBACK = "127.0.0.1"
_COPY_CHUNK_BYTES = 256 * 1024


@contextmanager
def scratch(parent: Path, name: str) -> Iterator[Path]:
    """A temporary folder on the measured disk."""
    folder = Path(mkdtemp(prefix=f"{name}-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def disk_durations(parent: Path, size_bytes: int, count: int) -> list[float]:
    """Seconds for each of `count` appends, a write and a sync, into a file allocated as journals are."""
    data = os.urandom(size_bytes)
    with scratch(parent, "disk") as folder:
        disk = PosixDisk(str(folder))
        made = disk.open("probe", create=True)
        made.allocate(max(size_bytes * count, StoreOptions().journal_bytes))
        made.sync()
        made.close()
        disk.close()
        descriptor = os.open(folder / "probe", os.O_RDWR)
        durations = []
        try:
            for number in range(count):
                started = perf_counter()
                os.pwrite(descriptor, data, number * size_bytes)
                sync_data(descriptor)
                durations.append(perf_counter() - started)
        finally:
            os.close(descriptor)
    return durations


def echo_durations(size_bytes: int, count: int) -> list[float]:
    """Seconds for each of `count` round trips over a TCP connection of this machine."""
    data = bytes(size_bytes)
    durations = []
    near, far = _connected()
    with near, far:
        echoing = threading.Thread(target=_echo, args=(far, size_bytes, count))
        echoing.start()
        for _ in range(count):
            started = perf_counter()
            near.sendall(data)
            _receive(near, size_bytes)
            durations.append(perf_counter() - started)
        echoing.join()
    return durations


def copy_rate(size_bytes: int) -> float:
    """Bytes a second of one TCP connection within this machine."""
    chunk = bytes(_COPY_CHUNK_BYTES)
    chunks = -(-size_bytes // len(chunk))
    near, far = _connected()
    with near, far:
        started = perf_counter()
        receiving = threading.Thread(target=_receive, args=(far, chunks * len(chunk)))
        receiving.start()
        for _ in range(chunks):
            near.sendall(chunk)
        receiving.join()
        return chunks * len(chunk) / (perf_counter() - started)


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server((_LOOPBACK, 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    for each in (near, far):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def _echo(far: socket.socket, size_bytes: int, count: int) -> None:
    data = bytes(size_bytes)
    for _ in range(count):
        _receive(far, size_bytes)
        far.sendall(data)


def _receive(connection: socket.socket, size_bytes: int) -> None:
    buffer = bytearray(_COPY_CHUNK_BYTES)
    while size_bytes:
        received = connection.recv_into(buffer, min(size_bytes, len(buffer)))
        if not received:
            raise ConnectionResetError("the other end of a probe closed its connection")
        size_bytes -= received
