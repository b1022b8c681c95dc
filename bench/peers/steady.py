"""A leader that is killed under a producer that always has one message in flight, and the ledger of both sides.

The wait is the time from the kill to the acknowledgement of a message that was sent after it. Every acknowledged
message is looked for afterwards. A message whose outcome the client does not know is not counted as acknowledged.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

from bench.subject import Failover

_STEADY_S = 1.0
_WAIT_S_MAX = 60.0
_POLL_S = 0.002


class SteadyProducer:
    """Sends numbers one after the other on a thread, and keeps when each was sent and acknowledged."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        """`send` returns when the message is acknowledged and raises when it may not be."""
        self._send = send
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="steady-producer", daemon=True)
        #: What was acknowledged, and when each of them was sent and acknowledged.
        self.numbers: list[int] = []
        self.moments: list[tuple[float, float]] = []
        self.errors = 0

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._thread.join(_WAIT_S_MAX)

    def wait_acknowledged_after(self, moment: float) -> float:
        deadline = time.monotonic() + _WAIT_S_MAX
        while time.monotonic() < deadline:
            if self.moments and self.moments[-1][0] > moment:
                return next(done for sent, done in self.moments if sent > moment) - moment
            time.sleep(_POLL_S)
        raise TimeoutError(f"no acknowledgement within {_WAIT_S_MAX:.0f} s")

    def longest_pause(self, begin: float, end: float) -> float:
        """Seconds without an acknowledgement, between two of them or up to an end of the stretch."""
        moments = [done for _, done in self.moments if begin < done < end]
        return max(later - earlier for earlier, later in pairwise([begin, *moments, end]))

    def _run(self) -> None:
        number = 0
        while not self._is_stopping:
            sent = time.monotonic()
            try:
                self._send(b"%0100d" % number)
            except Exception:
                # Clients raise various errors while the cluster has no leader; the next number is a new attempt.
                self.errors += 1
                time.sleep(_POLL_S)
            else:
                self.numbers.append(number)
                self.moments.append((sent, time.monotonic()))
            number += 1


def failed_over(
    send: Callable[[bytes], object],
    find_leader: Callable[[], str],
    kill: Callable[[str], None],
    read_back: Callable[[], Iterable[bytes]],
) -> Failover:
    with SteadyProducer(send) as producer:
        producer.wait_acknowledged_after(time.monotonic())
        time.sleep(_STEADY_S)
        leader = find_leader()
        killed = time.monotonic()
        kill(leader)
        waited_s = producer.wait_acknowledged_after(killed)
        time.sleep(_STEADY_S)
    lost, doubled = missing_and_doubled(producer.numbers, read_back())
    return Failover(waited_s=waited_s, acknowledged=len(producer.numbers), lost=lost, doubled=doubled)


def missing_and_doubled(acknowledged: Iterable[int], payloads: Iterable[bytes]) -> tuple[int, int]:
    """How many acknowledged messages are missing, and how many messages are stored more than once."""
    found = Counter(map(int, payloads))
    return sum(not found[number] for number in acknowledged), sum(times > 1 for times in found.values())
