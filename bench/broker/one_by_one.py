"""Sequential durable produce: one record in flight, so the rate is its latency."""

from bench.broker.beside import PAYLOADS_BYTES, latency_figures, size
from bench.figure import Figure
from bench.options import BenchOptions
from bench.subject import Subject

NAME = "one in flight"


def measure(subject: Subject, options: BenchOptions) -> list[Figure]:
    count = options.pick(quick=500, full=3_000)
    figures: list[Figure] = []
    for payload_bytes in PAYLOADS_BYTES:
        payload = bytes(payload_bytes)
        subject.one_by_one(payload, count // 10)
        name = f"{subject.name} {NAME} {size(payload_bytes)}"

        def work(payload: bytes = payload) -> list[float]:
            return subject.one_by_one(payload, count)

        figures += latency_figures(name, options, payload_bytes, work)
    return figures
