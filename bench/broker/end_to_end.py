"""End-to-end latency: from sending to being read, at a rate that leaves room."""

from bench.broker.beside import PAYLOADS_BYTES, latency_figures, size
from bench.figure import Figure
from bench.options import BenchOptions
from bench.subject import Subject

NAME = "end to end"
RATE = 1_000


def measure(subject: Subject, options: BenchOptions) -> list[Figure]:
    count = RATE * options.pick(quick=1, full=10)
    figures: list[Figure] = []
    for payload_bytes in PAYLOADS_BYTES:
        name = f"{subject.name} {NAME} at {RATE:,} msg/s {size(payload_bytes)}"

        def work(payload_bytes: int = payload_bytes) -> list[float]:
            return subject.end_to_end(payload_bytes, RATE, count)

        figures += latency_figures(name, options, payload_bytes, work)
    return figures
