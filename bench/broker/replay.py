"""Replay: a backlog read from its beginning by one reader, into message objects."""

from bench.broker.beside import PAYLOADS_BYTES, figure, rate_figures, size
from bench.broker.flotilla import FlotillaSubject
from bench.figure import Figure, Goal
from bench.options import BenchOptions
from bench.subject import Subject

NAME = "replay"
#: Messages a second at 100 bytes.
RATE_WANTED = 400_000
#: Of a loopback copy, at 1 KB.
COPY_WANTED = 0.5


def measure(subject: Subject, options: BenchOptions) -> list[Figure]:
    backlog_bytes = options.pick(quick=20_000_000, full=100_000_000)
    figures: list[Figure] = []
    for payload_bytes in PAYLOADS_BYTES:
        payload, count = bytes(payload_bytes), backlog_bytes // payload_bytes
        if not isinstance(subject, FlotillaSubject):
            # Peers deliver and acknowledge one by one; a tenth says as much.
            count //= 10
        name = f"{subject.name} {NAME} {size(payload_bytes)}"
        is_ours = isinstance(subject, FlotillaSubject)
        subject.replay(payload, count)
        rates: list[float] = []

        def work(payload: bytes = payload, count: int = count, rates: list[float] = rates) -> float:
            rates.append(subject.replay(payload, count))
            return rates[-1]

        copy_goal = Goal(COPY_WANTED) if is_ours and payload_bytes >= 1_024 else Goal(None)
        figures += rate_figures(name, options, payload_bytes, work, copy_goal=copy_goal)
        if is_ours and payload_bytes < 1_024:
            figures.append(figure(name, "msg/s", [(rate, RATE_WANTED) for rate in rates], "wanted", Goal(1.0)))
    return figures
