"""The cost of size: many partitions, a large log, and idle nodes.

A small and a large cluster are measured alternately, so their ratio shows only the cost of size.
"""

from bench.figure import Absence, Figure
from bench.options import BenchOptions
from bench.scale import large_log, partitions


def measure(options: BenchOptions) -> list[Figure | Absence]:
    return [*partitions.measure(options), *large_log.measure(options)]
