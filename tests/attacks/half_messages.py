"""What no gRPC client does, over HTTP/2 of our own: messages without their last byte, and answers that may not come."""

import socket
import struct
from collections.abc import Iterator
from typing import Final

from tests.integration.ports import LOOPBACK

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW = 0, 1, 4, 6, 8
_ACK: Final = 1
_END_STREAM: Final = 1
_END_HEADERS: Final = 4
_INITIAL_WINDOW_SIZE: Final = 4
#: A frame that ends one stream.
RESET: Final = 3
_WINDOW_BYTES: Final = 65_535
_FRAME_BYTES: Final = 16_384


class HalfMessages:
    """One connection with `stream_count` streams, each with a message of `size_bytes` that never ends."""

    def __init__(self, port: int, path: bytes, stream_count: int, size_bytes: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=1)
        self._window = _WINDOW_BYTES
        numbers = range(1, 2 * stream_count, 2)
        #: The window of each stream, and the bytes that it has left to send.
        self._windows = dict.fromkeys(numbers, _WINDOW_BYTES)
        self._left = dict.fromkeys(numbers, size_bytes - 1)
        head = _head(path)
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        for number in numbers:
            self._socket.sendall(_frame(_HEADERS, _END_HEADERS, number, head))
            self._send(number, b"\0" + struct.pack(">I", size_bytes))

    def run(self) -> None:
        """Sends as much as the windows allow, until the connection ends or rests for a second."""
        try:
            for kind, flags, number, data in self._frames():
                if kind == _WINDOW:
                    self._widen(number, int.from_bytes(data, "big"))
                elif kind in (_SETTINGS, _PING) and not flags & _ACK:
                    self._socket.sendall(_frame(kind, _ACK, 0, data if kind == _PING else b""))
        except OSError:
            # It was refused, or has nothing to do.
            pass

    def close(self) -> None:
        self._socket.close()

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        received = self._socket.makefile("rb")
        while len(head := received.read(9)) == 9:
            yield head[3], head[4], int.from_bytes(head[5:], "big"), received.read(int.from_bytes(head[:3], "big"))

    def _widen(self, number: int, size_bytes: int) -> None:
        if number:
            self._windows[number] += size_bytes
        else:
            self._window += size_bytes
        for each, left in self._left.items():
            while room := max(min(left, _FRAME_BYTES, self._windows[each], self._window), 0):
                self._send(each, bytes(room))
                left -= room
            self._left[each] = left

    def _send(self, number: int, data: bytes) -> None:
        self._socket.sendall(_frame(_DATA, 0, number, data))
        self._window -= len(data)
        self._windows[number] -= len(data)


class UnreadCalls:
    """One connection with `call_count` calls of one message each, and no room for a byte of their answers."""

    def __init__(self, port: int, path: bytes, call_count: int, message: bytes) -> None:
        self._socket = socket.create_connection((LOOPBACK, port), timeout=20)
        head = _head(path)
        window = struct.pack(">HI", _INITIAL_WINDOW_SIZE, 0)
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, window) + _frame(_SETTINGS, _ACK, 0, b""))
        for number in range(1, 2 * call_count, 2):
            data = b"\0" + struct.pack(">I", len(message)) + message
            self._socket.sendall(
                _frame(_HEADERS, _END_HEADERS, number, head) + _frame(_DATA, _END_STREAM, number, data)
            )

    def read(self) -> Iterator[int]:
        """The kinds of the frames that come, until the connection ends. Answers a ping."""
        received = self._socket.makefile("rb")
        try:
            while len(head := received.read(9)) == 9:
                data = received.read(int.from_bytes(head[:3], "big"))
                if head[3] == _PING and not head[4] & _ACK:
                    self._socket.sendall(_frame(_PING, _ACK, 0, data))
                yield head[3]
        except OSError:
            # It was ended.
            pass

    def close(self) -> None:
        # A thread that reads would keep it open.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _head(path: bytes) -> bytes:
    names = {":method": b"POST", ":scheme": b"http", ":path": path, ":authority": b"localhost", "te": b"trailers"}
    names["content-type"] = b"application/grpc"
    return b"".join([b"\0" + _text(name.encode()) + _text(value) for name, value in names.items()])


def _frame(kind: int, flags: int, number: int, data: bytes) -> bytes:
    return struct.pack(">I", len(data))[1:] + bytes((kind, flags)) + struct.pack(">I", number) + data


def _text(text: bytes) -> bytes:
    return bytes((len(text),)) + text
