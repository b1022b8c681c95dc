"""Peers that are measured with the same workloads where they are installed, each with its own Python client.

Each runs once as it comes and once with a sync before every acknowledgement, if it can do that.
"""

PEERS: tuple = ()
