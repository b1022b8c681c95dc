"""A steady rate for clients that block: one thread sends what is due, another reads, and the payload holds the time."""

import struct
import threading
import time
from collections.abc import Callable, Iterable
from time import perf_counter

_SENT_AT = struct.Struct("<d")
_TURN_S = 0.001


def paced(
    payload_bytes: int,
    rate: int,
    count: int,
    send: Callable[[list[bytes]], object],
    receive: Callable[[], Iterable[bytes]],
) -> list[float]:
    """Seconds on the way, for each message. `send` takes all that is due, `receive` returns what has come, if any."""
    durations: list[float] = []
    failures: list[Exception] = []

    def read() -> None:
        try:
            while len(durations) < count:
                payloads = receive()
                now = perf_counter()
                durations.extend(now - sent_at(payload) for payload in payloads)
        except Exception as error:
            failures.append(error)

    reader = threading.Thread(target=read, name="paced-reader", daemon=True)
    reader.start()
    started = perf_counter()
    sent = 0
    while sent < count:
        due = min(int((perf_counter() - started) * rate) + 1, count)
        if sent < due:
            send([stamped(started + number / rate, payload_bytes) for number in range(sent, due)])
            sent = due
        time.sleep(_TURN_S)
    reader.join(timeout=30)
    if failures:
        raise failures[0]
    if reader.is_alive():
        raise TimeoutError(f"only {len(durations)} of {count} messages arrived")
    return durations[:count]


def stamped(due: float, payload_bytes: int) -> bytes:
    return _SENT_AT.pack(due).ljust(payload_bytes, b"\0")


def sent_at(payload: bytes) -> float:
    moment: float = _SENT_AT.unpack_from(payload)[0]
    return moment
