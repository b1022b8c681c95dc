"""Brokers as users run them: three processes, the public client, a majority's sync before each answer.

One module per workload. A workload knows a `Subject` and compares each of its figures with probes of the same disk and
loopback, measured alternately.
"""

from bench.broker.area import measure

__all__ = ["measure"]
