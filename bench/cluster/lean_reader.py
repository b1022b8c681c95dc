"""A reader with hardly any cost of its own, to measure the brokers: fixed requests, answers dropped.

    python -m bench.cluster.lean_reader ADDRESS TOPIC END SECONDS

Prints how many bytes came in a second, as JSON. It begins when a line comes by its standard input.
"""

import json
import socket
import sys
import time

from flotilla.codec.client.frames import PROTOCOL_VERSION_MAX, PROTOCOL_VERSION_MIN, encode_request
from flotilla.types.limits import KIB
from flotilla.types.operations import Fetch, Hello

_FETCH_BYTES = 4 * KIB
_IN_FLIGHT = 8
_REQUESTS = 64
_BUFFER_BYTES = 1024 * KIB
_HEADER_BYTES = 4


def read(address: str, topic: str, end: int, seconds: float) -> float:
    """Bytes a second, over requests that lie apart in the log."""
    host, _, port = address.rpartition(":")
    requests = [
        b"".join(
            encode_request(2 + place, Fetch(topic, 0, end * place // _REQUESTS, _FETCH_BYTES, is_any_replica=True))
        )
        for place in range(_REQUESTS)
    ]
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answers = _Answers(connection)
        connection.sendall(b"".join(encode_request(1, Hello(PROTOCOL_VERSION_MIN, PROTOCOL_VERSION_MAX, "bench"))))
        answers.wait(1)
        sys.stdin.readline()
        connection.sendall(b"".join(requests[:_IN_FLIGHT]))
        began = time.monotonic()
        received = sent = 0
        while time.monotonic() - began < seconds:
            count, size_bytes = answers.wait(1)
            received += size_bytes
            connection.sendall(b"".join([requests[(sent + more) % _REQUESTS] for more in range(count)]))
            sent += count
        return received / (time.monotonic() - began)


class _Answers:
    """Counts frames, and looks at nothing but their lengths."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = bytearray(_BUFFER_BYTES)
        #: Missing bytes of the current frame, and the beginning of a length.
        self._missing = 0
        self._header = b""

    def wait(self, count: int) -> tuple[int, int]:
        """Waits for that many complete frames. Returns their count and bytes."""
        done = size_bytes = 0
        while done < count:
            received = self._connection.recv_into(self._buffer)
            if not received:
                raise ConnectionError("the broker has ended the connection")
            size_bytes += received
            done += self._count(memoryview(self._buffer)[:received])
        return done, size_bytes

    def _count(self, data: memoryview) -> int:
        done = at = 0
        while at < len(data):
            if self._missing:
                step = min(self._missing, len(data) - at)
                self._missing -= step
                at += step
                done += not self._missing
                continue
            step = min(_HEADER_BYTES - len(self._header), len(data) - at)
            self._header += bytes(data[at : at + step])
            at += step
            if len(self._header) == _HEADER_BYTES:
                self._missing = int.from_bytes(self._header, "big")
                self._header = b""
        return done


if __name__ == "__main__":
    where, name, last, for_s = sys.argv[1:]
    print(json.dumps({"bytes_per_s": read(where, name, int(last), float(for_s))}))
