"""Flotilla and its peers in turn: the same workloads, each product alone on the machine, round after round.

A round starts every contestant, gives it all workloads, kills its leader, and stops it. Beside every contestant stand
probes of the disk and the loopback of the same minute. The figure that counts is the median over the rounds of
Flotilla's value by that of the best peer that promises as much.
"""

from bench.contest.area import measure

__all__ = ["measure"]
