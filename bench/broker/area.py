"""The whole area: every workload against three brokers."""

from bench.broker import end_to_end, flotilla, one_by_one, pipelined, replay
from bench.figure import Figure
from bench.options import BenchOptions
from bench.subject import Subject
from flotilla.cli.bench.probes import scratch


def measure(options: BenchOptions) -> list[Figure]:
    with scratch(options.folder, "brokers") as folder, flotilla.started(folder) as subject:
        return [*measure_subject(subject, options), *pipelined.measure_bulk(subject, options)]


def measure_subject(subject: Subject, options: BenchOptions) -> list[Figure]:
    return [
        *one_by_one.measure(subject, options),
        *pipelined.measure(subject, options),
        *replay.measure(subject, options),
        *end_to_end.measure(subject, options),
    ]
