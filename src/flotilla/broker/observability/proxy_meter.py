"""What a proxy counts about the requests that it passes on, and its page of metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flotilla.machine import here, steady_ms
from flotilla.runtime.observability import metrics
from flotilla.runtime.observability import process_usage as usage
from flotilla.runtime.observability.histogram import DurationHistogram
from flotilla.runtime.observability.metrics import Exposition, label

HTTP: Final = "http"
GRPC: Final = "grpc"
#: Of a request whose client went away before the answer.
UNANSWERED: Final = "none"


class PassedRequest:
    """A request in flight. The endpoint sets its status when the answer has one."""

    __slots__ = ("status",)

    def __init__(self) -> None:
        self.status = UNANSWERED


class ProxyMeter:
    def __init__(self) -> None:
        self._started_ms = steady_ms()
        self._counts: dict[tuple[str, str], int] = {}
        self._durations = {HTTP: DurationHistogram(), GRPC: DurationHistogram()}
        self._in_flight = {HTTP: 0, GRPC: 0}

    @contextmanager
    def passing(self, interface: str) -> Iterator[PassedRequest]:
        request = PassedRequest()
        self._in_flight[interface] += 1
        began_ns = here().elapsed_ns()
        try:
            yield request
        finally:
            self._in_flight[interface] -= 1
            self._durations[interface].record((here().elapsed_ns() - began_ns) // 1_000)
            row = (interface, request.status)
            self._counts[row] = self._counts.get(row, 0) + 1

    def render(self) -> bytes:
        """In the text format of Prometheus."""
        out = Exposition(metrics.PROXY_METRICS)
        for (interface, status), count in self._counts.items():
            out.add(metrics.PROXY_REQUESTS, count, f"{label('interface', interface)},{label('status', status)}")
        for interface, durations in self._durations.items():
            out.add_histogram(metrics.PROXY_REQUEST_SECONDS, durations, label("interface", interface))
            out.add(metrics.PROXY_REQUESTS_IN_FLIGHT, self._in_flight[interface], label("interface", interface))
        out.add(metrics.UPTIME_SECONDS, (steady_ms() - self._started_ms) / 1000)
        usage.add_usage(out)
        return out.render()
