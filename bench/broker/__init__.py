"""Brokers as their users meet them: three processes, the public client, a majority's sync before each answer.

One module per workload. A workload knows a `Subject` and sets each of its figures beside probes of the same disk and
the same loopback, taken in turn with it.
"""

from bench.broker.area import measure

__all__ = ["measure"]
