"""What a worker counts about its handlers, and the same in the text format of Prometheus.

One thread counts, and any thread may read. Nothing here needs more than the standard library.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from flotilla.client.queue.outcome import Retry, kind_of
from flotilla.types.operations.queue import ACK, FAIL, REJECT, RELEASE

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

#: How an attempt can end. A message that is retried or has failed counts as an attempt, a released one does not.
DONE, FAILED, RETRIED, REJECTED, RELEASED = "done", "failed", "retried", "rejected", "released"
_OUTCOMES: Final = {ACK: DONE, FAIL: FAILED, REJECT: REJECTED, RELEASE: RELEASED}
#: Upper bounds of durations, in seconds: of handlers that look something up, and of those that work for minutes.
_BOUNDS_S: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0)

_STARTED: Final = "flotilla_worker_messages_started_total"
_ENDED: Final = "flotilla_worker_messages_ended_total"
_RUNNING: Final = "flotilla_worker_messages_running"
_SECONDS: Final = "flotilla_worker_handler_seconds"
#: The kind and the meaning of each metric.
FAMILIES: Final = {
    _STARTED: ("counter", "Messages whose handler was started."),
    _ENDED: ("counter", "Messages whose handler has ended, by the outcome: done, failed, retried, rejected, released."),
    _RUNNING: ("gauge", "Messages whose handler is running."),
    _SECONDS: ("histogram", "How long handlers ran."),
}
#: The labels of each metric.
LABELS: Final = {name: ("topic", "group", *(["outcome"] if name == _ENDED else [])) for name in FAMILIES}


class HandlerCounts:
    """The counters of a worker, by the metrics that it keeps."""

    _metrics: "HandlerMetrics"

    @property
    def handled_count(self) -> int:
        """Messages whose handler has ended; of these, failed attempts (Retry included), and rejected messages."""
        return self._metrics.ended_count

    @property
    def failed_count(self) -> int:
        return self._metrics.failed_count

    @property
    def rejected_count(self) -> int:
        return self._metrics.rejected_count


class HandlerMetrics:
    """Of the messages of one topic and group."""

    __slots__ = ("_buckets", "_labels", "_seconds", "ended", "started")

    def __init__(self, topic: str, group: str) -> None:
        self._labels = f'topic="{_escaped(topic)}",group="{_escaped(group)}"'
        self.started = 0
        self.ended = dict.fromkeys((DONE, FAILED, RETRIED, REJECTED, RELEASED), 0)
        self._buckets = [0] * (len(_BOUNDS_S) + 1)
        self._seconds = 0.0

    def begin(self) -> None:
        self.started += 1

    def end(self, error: BaseException | None, seconds: float) -> None:
        """A handler has ended with this exception, or (None) without any."""
        self.ended[RETRIED if isinstance(error, Retry) else _OUTCOMES[kind_of(error)]] += 1
        place = next((place for place, bound in enumerate(_BOUNDS_S) if seconds <= bound), len(_BOUNDS_S))
        self._buckets[place] += 1
        self._seconds += seconds

    @property
    def ended_count(self) -> int:
        return sum(self.ended.values())

    @property
    def failed_count(self) -> int:
        """Attempts that count as failures."""
        return self.ended[FAILED] + self.ended[RETRIED]

    @property
    def rejected_count(self) -> int:
        return self.ended[REJECTED]

    def samples(self) -> list[tuple[str, str]]:
        """Lines, each with the name of its family."""
        labels, buckets = self._labels, list(self._buckets)
        ended = dict(self.ended)
        found = [(_STARTED, f"{_STARTED}{{{labels}}} {self.started}")]
        found += [(_ENDED, f'{_ENDED}{{{labels},outcome="{name}"}} {count}') for name, count in ended.items()]
        found.append((_RUNNING, f"{_RUNNING}{{{labels}}} {max(self.started - sum(ended.values()), 0)}"))
        for place, bound in enumerate((*map(str, _BOUNDS_S), "+Inf"), 1):
            found.append((_SECONDS, f'{_SECONDS}_bucket{{{labels},le="{bound}"}} {sum(buckets[:place])}'))
        found.append((_SECONDS, f"{_SECONDS}_sum{{{labels}}} {self._seconds}"))
        found.append((_SECONDS, f"{_SECONDS}_count{{{labels}}} {sum(buckets)}"))
        return found


def render(workers: Iterable[HandlerMetrics]) -> str:
    """A page of metrics: the lines of each family stand together."""
    samples: Sequence[tuple[str, str]] = [sample for each in workers for sample in each.samples()]
    lines = []
    for name, (kind, text) in FAMILIES.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        lines += [line for family, line in samples if family == name]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
