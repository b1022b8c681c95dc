"""What size does to brokers: many partitions, a large log, and how much a node takes that has nothing to do.

Two clusters stand side by side, a small and a large one, and are measured in turn, so the ratio of the two says what
size costs and nothing else.
"""

from bench.figure import Absence, Figure
from bench.options import BenchOptions
from bench.scale import large_log, partitions


def measure(options: BenchOptions) -> list[Figure | Absence]:
    return [*partitions.measure(options), *large_log.measure(options)]
