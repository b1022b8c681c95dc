"""The contest: Flotilla and its peers run the same workloads, each alone on the machine, in rounds.

A round starts every contestant, runs all workloads, kills its leader, and stops it. Probes measure disk and loopback
before every contestant. The figure is the median over the rounds of Flotilla's value divided by that of the best peer
with the same promise.
"""

from bench.contest.area import measure

__all__ = ["measure"]
