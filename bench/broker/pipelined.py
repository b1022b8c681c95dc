"""Pipelined produce: many records in flight, an acknowledgement for each."""

from bench.broker.beside import PAYLOADS_BYTES, rate_figures, size
from bench.broker.flotilla import FlotillaSubject
from bench.figure import Figure
from bench.options import BenchOptions
from bench.subject import Subject

NAME = "pipelined"
BULK_NAME = "produce_many"


def measure(subject: Subject, options: BenchOptions) -> list[Figure]:
    count = options.pick(quick=30_000, full=200_000)
    figures: list[Figure] = []
    for payload_bytes in PAYLOADS_BYTES:
        payload = bytes(payload_bytes)
        name = f"{subject.name} {NAME} {size(payload_bytes)}"
        subject.pipelined(payload, count // 10)

        def work(payload: bytes = payload) -> float:
            return subject.pipelined(payload, count)

        figures += rate_figures(name, options, payload_bytes, work)
    return figures


def measure_bulk(subject: FlotillaSubject, options: BenchOptions) -> list[Figure]:
    bulk_bytes = options.pick(quick=20_000_000, full=100_000_000)
    figures: list[Figure] = []
    for payload_bytes in PAYLOADS_BYTES:
        payload, count = bytes(payload_bytes), bulk_bytes // payload_bytes
        name = f"{subject.name} {BULK_NAME} {size(payload_bytes)}"
        subject.in_bulk(payload, count // 10)

        def work(payload: bytes = payload, count: int = count) -> float:
            return subject.in_bulk(payload, count)

        figures += rate_figures(name, options, payload_bytes, work)
    return figures
